"""Leaf functions: products, whose sums have one order, in every instruction set."""

import numpy as np
import pytest

from pymc_minibatch_mh.native import library


@pytest.fixture
def each_set():
    """Return a function that has leaf functions run by each instruction set in turn."""
    loaded = library.load_library()

    def run(call):
        found = []
        for number in range(loaded.mh_widest_set() + 1):
            assert loaded.mh_use_set(number)
            found.append(call())
        return found

    yield run
    loaded.mh_use_set(loaded.mh_widest_set())


#: Numbers of very different sizes, of which sums in another order differ.
def numbers(rng, *shape):
    return rng.normal(size=shape) * 10.0 ** rng.integers(-8, 9, size=shape)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 16, 50, 203])
def test_instruction_sets_round_alike(each_set, size):
    rng = np.random.default_rng(size)
    matrix, a, b = numbers(rng, size, size), numbers(rng, size), numbers(rng, size)

    def call():
        out = np.zeros(size)
        library.function("mh_lower_times")(matrix, a, 0, size, out)
        return out.tobytes(), library.function("mh_inner_by")(matrix, a, b, size)

    found = each_set(call)
    assert found == found[:1] * len(found)


@pytest.mark.parametrize("size", [1, 9, 50])
@pytest.mark.parametrize("first", [0, 1])
def test_leaf_functions_are_products(first, size):
    rng = np.random.default_rng(size)
    matrix, a, b = rng.normal(size=(size, size)), rng.normal(size=size), rng.normal(size=size)
    out = np.full(size, 7.0)
    library.function("mh_lower_times")(matrix, a, first, size, out)
    np.testing.assert_array_equal(out[:first], 7.0)
    product = np.tril(matrix)[first:, first:] @ a[first:]
    np.testing.assert_allclose(out[first:], product, rtol=1e-12, atol=1e-12)
    found = library.function("mh_inner_by")(matrix, a, b, size)
    np.testing.assert_allclose(found, a @ matrix @ b, rtol=1e-11)


@pytest.mark.parametrize("size", [5, 16, 32, 43, 208])
def test_lines_of_bytes_are_multiplied_in_eight_lanes(each_set, size):
    """Entries j, j + 8, j + 16, ... side by side, then lanes that are four apart, two, and one."""
    rng = np.random.default_rng(size)
    lines = rng.integers(-127, 128, size=(9, size + 3)).astype(np.int8)
    vectors = numbers(rng, 2, size).astype(np.float32)
    rows = np.array([3, 8, 0, 3])

    def call():
        out = np.full((4, 2), 7.0, np.float32)
        function = library.function("mh_products_of_lines")
        function(lines, size + 3, rows, len(rows), *vectors, size, out)
        return out

    lanes = np.zeros((4, 2, 8), np.float32)
    for j in range(size):
        lanes[:, :, j % 8] += lines[rows, j, None].astype(np.float32) * vectors[:, j]
    halves = lanes[:, :, :4] + lanes[:, :, 4:]
    expected = (halves[:, :, 0] + halves[:, :, 2]) + (halves[:, :, 1] + halves[:, :, 3])
    for found in each_set(call):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["mh_multiply_intervals", "mh_add_intervals"])
@pytest.mark.parametrize("sizes", [(23, 23), (1, 23), (23, 1), (1, 1), (0, 0), (1, 0)])
def test_intervals_are_combined_alike_by_all_sets(each_set, name, sizes):
    rng = np.random.default_rng(4)
    special = [0.0, -0.0, 1.0, np.inf, -np.inf, 1e-200, -1e308]
    one, other = (np.sort(rng.choice(special, (2, size)), axis=0) for size in sizes)
    n = 0 if 0 in sizes else max(sizes)

    def call():
        lo, hi = np.empty(n), np.empty(n)
        ends = (*one, sizes[0], *other, sizes[1])
        library.function(name)(*ends, n, lo, hi)
        return lo.tobytes(), hi.tobytes()

    found = each_set(call)
    assert found == found[:1] * len(found)


def test_sums_have_their_order():
    """Eight side by side, in pairs that are four apart, then two, then one; then what is left."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        a, b = rng.normal(size=27), rng.normal(size=27)
        lanes = np.zeros(8)
        for k in range(0, 24, 8):
            lanes += a[k : k + 8] * b[k : k + 8]
        halves = lanes[:4] + lanes[4:]
        total = (halves[0] + halves[2]) + (halves[1] + halves[3])
        for k in range(24, 27):
            total += a[k] * b[k]
        matrix, last = np.zeros((27, 27)), np.zeros(27)
        matrix[26], last[26] = a, 1.0
        assert library.function("mh_inner_by")(matrix, last, b, 27) == total


#: Numbers of rows and of coefficients: whole groups of four and of eight, and what is left of them.
ROWS = [1, 4, 7, 12]
WIDTHS = [1, 3, 8, 21]


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("width", WIDTHS)
def test_products_of_rows_are_summed_below_the_diagonal(n, width):
    """Of two forms: all pairs within the second, and of the second with the first."""
    rng = np.random.default_rng(n * width)
    fixed, weights = rng.normal(size=(n, width)), rng.normal(size=n)
    first, out = width // 3, np.full((width, width), 7.0)
    add = library.function("mh_add_products")
    for start, stop in ((first, width), (0, first)):
        add(fixed, width, weights, n, first, width, start, stop, out)
    whole = 7.0 + fixed.T @ (weights[:, None] * fixed)
    below = np.tril(np.ones((width, width), dtype=bool))
    below[:first] = False
    np.testing.assert_allclose(out[below], whole[below], rtol=1e-12)
    np.testing.assert_array_equal(out[~below], 7.0)


@pytest.mark.parametrize("n", WIDTHS)
def test_forms_are_whitened_by_the_coefficients_that_are_not_zero(n):
    rng, size = np.random.default_rng(n), 23
    factor = np.tril(rng.normal(size=(size, size)))
    places = np.sort(rng.choice(size, n, replace=False))
    weights = rng.normal(size=n) * (rng.random(n) < 0.7)
    # What is multiplied by zero is not looked at.
    factor[places[weights == 0.0]] = np.nan
    out = np.ones(size)
    library.function("mh_whiten_form")(weights, places, n, factor, size, out)
    used = weights != 0.0
    np.testing.assert_allclose(out, 1.0 + weights[used] @ factor[places[used]], rtol=1e-12)


def test_forms_are_applied_between_their_ends():
    rng, n, width = np.random.default_rng(3), 5, 21
    fixed, picked = rng.normal(size=(n, width)), rng.normal(size=width)
    ends, out = np.array([9, 9, 21]), np.full((n, 4), 7.0)
    library.function("mh_apply_fixed")(fixed, n, width, picked, ends, 3, out, 4)
    products = fixed * picked
    expected = [products[:, :9].sum(axis=1), np.zeros(n), products[:, 9:].sum(axis=1)]
    np.testing.assert_allclose(out[:, :3].T, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(out[:, 3], 7.0)


@pytest.mark.parametrize("width", WIDTHS)
def test_instruction_sets_round_sums_over_rows_alike(each_set, width):
    rng, n = np.random.default_rng(width), 11
    fixed, weights, picked = numbers(rng, n, width), numbers(rng, n), numbers(rng, width)
    factor, ends = np.tril(numbers(rng, width, width)), np.array([width])

    def call():
        forms, white, products = np.zeros(n), np.zeros(width), np.zeros((width, width))
        places = np.arange(width)
        library.function("mh_apply_fixed")(fixed, n, width, picked, ends, 1, forms, 1)
        library.function("mh_whiten_form")(fixed[0], places, width, factor, width, white)
        add = library.function("mh_add_products")
        add(fixed, width, weights, n, 0, width, 0, width, products)
        return forms.tobytes() + white.tobytes() + products.tobytes()

    found = each_set(call)
    assert found == found[:1] * len(found)
