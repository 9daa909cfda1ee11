"""Random numbers of compiled loops are those of NumPy, bit for bit."""

from copy import deepcopy

import numpy as np
import pytest

from pymc_minibatch_mh.native.library import GeneratorRecord, LaidOut, ffi, load_library

DRAWS = 20_000
#: Shapes and means where distributions change their method.
SHAPES = [1e-8, 0.1, 0.99, 1.0, 1.01, 2.0, 1e3, 1e9]
MEANS = [0.0, 1e-12, 1.0, np.nextafter(10.0, 0.0), 10.0, 10.5, 35.0, 1e5, 1e12]
DISTRIBUTIONS = {
    "standard_normal": [()],
    "standard_exponential": [()],
    "standard_gamma": [(shape,) for shape in SHAPES],
    "poisson": [(mean,) for mean in MEANS],
}
CASES = [(name, parameters) for name, cases in DISTRIBUTIONS.items() for parameters in cases]


def generators():
    """Return a generator as the library has it, and the same and another of NumPy."""
    ours, theirs = np.random.default_rng(5), np.random.default_rng(5)
    return LaidOut("mh_generator", GeneratorRecord(ours)), ours, theirs


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_distributions_are_called_by_their_addresses(name, parameters):
    record, ours, theirs = generators()
    draw = getattr(record.at, name)
    drawn = [draw(record.at.bits, *parameters) for _ in range(DRAWS)]
    np.testing.assert_array_equal(drawn, getattr(theirs, name)(*parameters, size=DRAWS))
    assert ours.random() == theirs.random()


def row_below(generator, size):
    """Return the first row of a draw from `size` of them, by ``mh_integer_below``."""
    row, places = ffi.new("int64_t[1]"), ffi.new("int64_t[2]", [-1, -1])
    drawn = ffi.new("mh_drawn *", {"room": 1, "rows": row, "n_places": 2, "places": places})
    load_library().mh_draw_more(generator, size, drawn, 0, 1)
    return row[0]


@pytest.mark.parametrize(
    "size", [1, 2, 3, 5, 1_000, 2**31, 3 * 2**30, 2**32 - 1, 2**32, 2**32 + 1, 2**40, 2**62]
)
def test_integers_are_those_of_numpy(size):
    record, ours, theirs = generators()
    drawn = [row_below(record.at, size) for _ in range(1_000)]
    np.testing.assert_array_equal(drawn, theirs.integers(0, size, 1_000))
    assert ours.random() == theirs.random()


def test_a_copy_of_a_record_has_the_copied_generator():
    record = GeneratorRecord(np.random.default_rng(5))
    copied = deepcopy(record)
    assert copied.rng is not record.rng
    assert copied.bits == copied.rng.bit_generator.ctypes.bit_generator.value
