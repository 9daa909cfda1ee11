"""Which rows are heavy: those that an honest batch would have to be large for."""

import numpy as np
import pytest

from pymc_minibatch_mh.reference import influential as heavy
from pymc_minibatch_mh.reference.influential import Largest, batch_rows

ROWS = 50_000


def collected(changes, beta=1.0, chunks=1):
    """Return what is collected of changes of shape (moves, rows), in chunks."""
    largest = Largest(changes.shape[1], beta)
    for some in np.array_split(np.arange(changes.shape[1]), chunks):
        largest.add(largest.of_chunk(some, changes[:, some]))
    return largest


def chosen(changes, **settings):
    return collected(changes, **settings).heavy(np.isfinite(changes).all(axis=1)).tolist()


def alike(moves, scale, rows=ROWS):
    """Return changes with which a batch of a hundred rows estimates a sum to within `scale`."""
    rng = np.random.default_rng(4)
    return 10.0 * scale / rows * rng.standard_normal((moves, rows))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0])
def test_no_row_is_heavy_where_all_are_alike(scale):
    assert chosen(alike(8, scale)) == []


@pytest.mark.parametrize("scale", [1e-3, 0.3])
def test_a_group_is_found_whose_effect_on_the_log_ratio_counts(scale):
    changes, members = alike(8, scale), np.arange(100, 40_000, 2_000)
    changes[:, members] += np.linspace(-1.0, 1.0, 8)[:, None] / members.size
    assert chosen(changes) == members.tolist()
    changes[:, members] *= 1e-3
    assert chosen(changes) == []


def test_the_temperature_counts():
    changes, members = alike(8, 1e-3), np.arange(20) * 1_000
    changes[:, members] = 0.05
    assert chosen(changes) == members.tolist()
    assert chosen(changes, beta=1e-2) == []


@pytest.mark.parametrize("chunks", [2, 7])
def test_chunks_say_the_same_as_all_rows_at_once(chunks):
    rng = np.random.default_rng(5)
    changes = rng.standard_cauchy((3, 5_000)) * 1e-4
    whole, parts = collected(changes), collected(changes, chunks=chunks)
    counted = np.ones(3, dtype=bool)
    assert whole.heavy(counted).size > 0
    np.testing.assert_array_equal(whole.heavy(counted), parts.heavy(counted))
    for one, other in zip(whole._found, parts._found, strict=True):
        np.testing.assert_allclose(np.sort(one), np.sort(other), rtol=1e-9)


def test_a_share_of_all_rows_is_read_always_at_most(monkeypatch):
    changes = alike(2, 0.1, rows=5_000)
    changes[:, ::10] += 0.05
    monkeypatch.setattr(heavy, "MAX_SHARE", 0.02)
    # The group is too large to be read at every update, and no part of it would be worth it.
    assert chosen(changes) == []
    monkeypatch.setattr(heavy, "MAX_SHARE", 0.2)
    assert chosen(changes) == list(range(0, 5_000, 10))


def test_a_batch_is_as_large_as_small_and_normal_noise_needs():
    rng = np.random.default_rng(6)
    x = rng.standard_normal(ROWS)
    for rows in (400, 4_000):
        # By its variance N Σx²/b (1 - b/N), which such rows make 1.
        changes = x * np.sqrt(1.0 / (ROWS * (x**2).sum() * (1.0 / rows - 1.0 / ROWS)))
        assert batch_rows((changes**2).sum(), 0.0, ROWS) == pytest.approx(rows, rel=1e-9)
    # By the skewness of its noise, for a few rows in many.
    cubes = np.float64(20 * 0.01**3)
    rows = batch_rows(np.float64(0.0), cubes, 10**7)
    assert 10.0**14 * cubes / (24.0 * rows**2) == pytest.approx(heavy.ERROR, rel=0.05)
    assert batch_rows(np.float64(0.0), np.float64(0.0), ROWS) == heavy.FEWEST_ROWS
    assert batch_rows(np.float64(0.0), np.float64(0.0), 40) == 40
    assert batch_rows(np.float64(1e9), np.float64(1e9), ROWS) <= ROWS


def test_further_moves_tell_of_a_group_that_the_first_ones_hardly_moved():
    first, members = alike(4, 0.1), np.arange(20) * 1_000
    first[:, members] = 1e-3
    assert chosen(first) == []
    largest, noise = collected(first), np.full(4, 2.0)
    further = np.zeros((28, largest.rows.size))
    further[:, np.isin(largest.rows, members)] = 0.05
    largest.look_again(further, noise, np.full(28, 2.0))
    assert largest.heavy(np.ones(32, dtype=bool)).tolist() == members.tolist()


def test_what_further_moves_do_not_read_is_predicted_from_the_noise():
    """Of the rows that are not known one by one, from the sums over them in the first moves."""
    first = alike(4, 1.0)
    largest, noise = collected(first), np.array([1.0, 2.0, 0.0, 4.0])
    squares, cubes = largest._found.squares.copy(), largest._found.cubes.copy()
    largest.look_again(np.zeros((1, largest.rows.size)), noise, np.array([8.0]))
    known = noise > 0.0
    assert largest._found.squares[4] == pytest.approx(8.0 * np.mean(squares[known] / noise[known]))
    expected = 8.0**1.5 * np.mean(cubes[known] / noise[known] ** 1.5)
    assert largest._found.cubes[4] == pytest.approx(expected)
