"""Designs of a sequential test: the published ones, what errors they hold, and refusals."""

import numpy as np
import pytest

from every import every
from pymc_minibatch_mh import (
    PerUpdate,
    SequentialDesign,
    SettingError,
    TriedMoves,
    design_sequential_test,
    sequential_error,
    sequential_use,
)
from pymc_minibatch_mh.steps.designs import Grid, design_table

N_ROWS = 4_000


def moves(seed, count=60):
    """Moves of a chain whose acceptance is about a half, from good and bad control variates."""
    rng = np.random.default_rng(seed)
    return TriedMoves(N_ROWS, rng.normal(-0.7, 1.2, count), rng.uniform(0.3, 6.0, count))


@every(("tolerance", "n_rows", "batch_size"), [(0.1, 13_000, 450), (0.2, 100_000, 300)])
def test_published_designs_are_found(tolerance, n_rows, batch_size):
    found = design_sequential_test(n_rows, tolerance)
    assert (found.batch_size, found.epsilon) == (batch_size, 0.01)
    assert found.error == sequential_error(0.0, batch_size, 0.01, n_rows) <= tolerance
    assert found.use == sequential_use(0.0, batch_size, 0.01, n_rows)


def test_no_tolerated_test_of_the_grid_reads_fewer_rows():
    found = design_sequential_test(2_000, 0.1, epsilons=(0.005, 0.02), batch_sizes=(50, 100, 200))
    for batch_size in (50, 100, 200):
        for epsilon in (0.005, 0.02):
            if sequential_error(0.0, batch_size, epsilon, 2_000) <= 0.1:
                assert sequential_use(0.0, batch_size, epsilon, 2_000) >= found.use


def test_a_design_says_what_it_is():
    assert str(SequentialDesign(450, 0.01, 0.0996, 0.8897)) == (
        "batch_size=450, epsilon=0.01: error 0.0996, 89.0% of the rows"
    )
    assert "boundary=0.75" in str(SequentialDesign(450, 0.01, 0.1, 0.9, 0.75))


@every("log_ratio", [-3.0, -0.4, 0.0, 0.7, -900.0, 900.0])
@every("sd", [0.05, 2.0, 40.0])
def test_error_and_use_of_a_move_are_means_over_the_uniform_number(log_ratio, sd):
    found = TriedMoves(N_ROWS, [log_ratio], [sd]).error_and_use_of(200, 0.05)
    # Midpoints of -log u, finer where the decision turns.
    turn = max(0.0, -log_ratio)
    near = turn + sd * np.linspace(-3.0, 3.0, 4_001)
    ends = np.unique(np.clip(np.append(near, np.linspace(0.0, 40.0, 4_001)), 0.0, 40.0))
    weights = np.exp(-ends[:-1]) - np.exp(-ends[1:])
    gaps = log_ratio + 0.5 * (ends[1:] + ends[:-1])
    error = sequential_error(gaps / sd, 200, 0.05, N_ROWS)
    assert found.error[0] == pytest.approx(-(weights * np.sign(gaps)) @ error, abs=2e-4)
    expected = weights @ sequential_use(gaps / sd, 200, 0.05, N_ROWS)
    assert found.use[0] == pytest.approx(expected, abs=2e-4)


def test_errors_in_both_directions_cancel():
    even = TriedMoves(N_ROWS, [np.log(0.5)], [0.5]).error_and_use_of(200, 0.05).error[0]
    sure = TriedMoves(N_ROWS, [0.0], [0.5]).error_and_use_of(200, 0.05).error[0]
    # At P_a = 1 every error rejects.
    assert sure < -0.03
    assert abs(even) < 0.3 * abs(sure)


def test_rows_that_are_all_alike_are_decided_at_the_first_look():
    found = TriedMoves(N_ROWS, [-0.5], [0.0]).error_and_use_of(200, 0.05)
    assert found.error[0] == 0.0
    assert found.use[0] == pytest.approx(0.05, rel=1e-9)


def test_an_average_design_keeps_its_error_on_other_moves_and_reads_less():
    tolerance = 0.02
    average = design_sequential_test(moves(1), tolerance, "average")
    worst = design_sequential_test(moves(1), tolerance)
    assert average.error <= tolerance
    fresh = moves(2, 400)
    of_average, of_worst = (
        fresh.error_and_use_of(design.batch_size, design.epsilon) for design in (average, worst)
    )
    assert 0.5 * tolerance < np.abs(of_average.error).mean() < 1.5 * tolerance
    # The worst case is that of no move.
    assert np.abs(of_worst.error).mean() < 0.3 * tolerance
    assert of_average.use.mean() < 0.95 * of_worst.use.mean()


def test_other_boundaries_can_be_tried():
    found = design_sequential_test(2_000, 0.1, boundaries=(0.5, 0.75, 1.0))
    assert found.use <= design_sequential_test(2_000, 0.1).use


def test_a_look_at_half_of_the_rows_that_reads_them_all_errs_less():
    shipped = design_sequential_test(2_000, 0.1, all_rows_from=0.5, epsilons=[0.005])
    published = design_sequential_test(
        2_000, 0.1, epsilons=[0.005], batch_sizes=[shipped.batch_size]
    )
    assert shipped.error < published.error


@every("tolerance", [0.01, 0.1])
def test_every_update_has_the_cheapest_tolerated_test(tolerance):
    given = PerUpdate(tolerance, batch_sizes=(50, 200, 400), epsilons=(0.01, 0.1))
    table = design_table(given, N_ROWS)
    assert table.distances[0] == 0.0
    # Decided by all rows where no test is tolerated, and by the shortest test far away.
    assert (table.epsilons[0] == 0.0) == (tolerance == 0.01)
    assert table.batch_sizes[-1] == 50
    for k in range(0, table.distances.size - 1, 7):
        within = 0.5 * (table.distances[k] + table.distances[k + 1])
        test = int(table.batch_sizes[k]), float(table.epsilons[k]), N_ROWS
        assert sequential_error(within, *test, all_rows_from=0.5) <= tolerance
        use = sequential_use(table.distances[k], *test, all_rows_from=0.5)
        for batch_size, epsilon, _ in Grid(given.batch_sizes, given.epsilons).tests():
            other = batch_size, epsilon, N_ROWS
            if sequential_error(table.distances[k], *other, all_rows_from=0.5) <= tolerance:
                other_use = sequential_use(table.distances[k], *other, all_rows_from=0.5)
                assert use <= other_use + 1e-12


@every(
    ("changed", "name"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": 0.6}, "tolerance"),
        ({"tolerance": "small"}, "tolerance"),
        ({"tolerance": 1e-6}, "tolerance"),
        ({"kind": "best"}, "kind"),
        ({"kind": "average"}, "kind"),
        ({"batch_sizes": []}, "batch_sizes"),
        ({"batch_sizes": [1]}, "batch_sizes"),
        ({"epsilons": "few"}, "epsilons"),
        ({"epsilons": [0.7]}, "epsilon"),
        ({"boundaries": [2.0]}, "boundary"),
        ({"all_rows_from": 2.0}, "all_rows_from"),
        ({"step_or_numbers": 1}, "step_or_numbers"),
        ({"step_or_numbers": "step"}, "step"),
    ],
)
def test_impossible_arguments_are_refused_by_name(changed, name):
    with pytest.raises(SettingError, match=f"^{name}="):
        design_sequential_test(**{"step_or_numbers": 2_000, "tolerance": 0.1} | changed)


@every(
    ("given", "name"),
    [
        ((1, [0.0], [1.0]), "n_rows"),
        ((100, [], []), "log_ratio"),
        ((100, [np.nan], [1.0]), "log_ratio"),
        ((100, [0.0], [-1.0]), "sd"),
        ((100, [0.0, 1.0], [1.0]), "sd"),
    ],
)
def test_impossible_moves_are_refused_by_name(given, name):
    with pytest.raises(SettingError, match=f"^{name}="):
        TriedMoves(*given)
