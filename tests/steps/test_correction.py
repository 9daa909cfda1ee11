import dataclasses

import numpy as np
import pytest
from scipy.special import expit, ndtr

from every import every
from pymc_minibatch_mh.steps.barker import (
    SHIPPED_SIGMAS,
    certified_error,
    correction_table,
    minimax_correction,
)
from steps import shipped_tables

LARGEST_ERRORS = {0.9: 8e-10, 1.0: 6e-8, 1.1: 1.45e-6, 1.2: 1.7e-5, 1.3: 1.15e-4}


def distance(table, points):
    cdf = ndtr((points[:, None] - table.atoms) / table.sigma) @ table.masses
    return np.abs(cdf - expit(points)).max()


@every("sigma", SHIPPED_SIGMAS)
def test_shipped_table_is_a_symmetric_law(sigma):
    table = correction_table(sigma)
    assert table.sigma == sigma
    assert table.masses.min() > 0.0
    assert table.masses.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_array_equal(table.atoms, -table.atoms[::-1])
    np.testing.assert_array_equal(table.masses, table.masses[::-1])
    assert np.all(np.diff(table.atoms) > 0.0)
    assert table.error < LARGEST_ERRORS[sigma]


@every("sigma", [*SHIPPED_SIGMAS, 0.6, 1.5])
def test_certified_error_bounds_the_distance_and_is_tight(sigma):
    table = correction_table(sigma)
    rng = np.random.default_rng(7)
    seen = distance(table, np.concatenate([rng.uniform(-60, 60, 9000), np.linspace(-9, 9, 9001)]))
    assert seen <= table.error
    assert table.error < 1.05 * seen + 1e-12


@every("sigma", SHIPPED_SIGMAS)
def test_shipped_table_is_what_the_linear_programme_gives(sigma):
    rebuilt = minimax_correction(sigma)
    assert rebuilt.error == pytest.approx(correction_table(sigma).error, rel=1e-2, abs=1e-10)


def test_written_tables_are_read_back(tmp_path):
    path = tmp_path / "correction.npz"
    shipped_tables.write(path)
    with np.load(path, allow_pickle=False) as stored:
        assert stored["sigma"].tolist() == list(SHIPPED_SIGMAS)
        assert stored["count"].sum() == stored["atoms"].size == stored["masses"].size


def test_certificate_sees_a_mass_that_is_off():
    table = correction_table(1.0)
    masses = table.masses.copy()
    centre = masses.size // 2
    masses[centre] += 2e-6
    masses[[0, -1]] -= 1e-6
    assert certified_error(1.0, table.atoms, masses) > 5e-7


def test_certificate_of_a_normal_alone():
    alone = certified_error(1.7, np.zeros(1), np.ones(1))
    points = np.linspace(0, 20, 200_001)
    assert alone == pytest.approx(np.abs(ndtr(points / 1.7) - expit(points)).max(), abs=1e-6)


def test_tables_are_cached_and_read_only():
    table = correction_table(0.8)
    assert correction_table(0.8) is table
    assert not table.masses.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.sigma = 1.0
