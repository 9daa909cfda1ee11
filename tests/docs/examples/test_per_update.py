"""A sequential test that scans all rows to choose its design, update by update."""

import math

import numpy as np
import pytest

from helpers.in_c import require_compiler
from helpers.zoo import sample
from native.test_looks import normal_rows, spread, updates
from papers.designs import Grid
from papers.per_update import PerUpdate, PerUpdateAustereMH, PerUpdateTest, design_table
from papers.sequential import sequential_error, sequential_use
from pymc_minibatch_mh import audit

require_compiler()
N_ROWS = 4_000
EMPTY = PerUpdateTest(0.0, 1.0, math.inf, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0))


@pytest.mark.parametrize("tolerance", [0.01, 0.1])
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


def per_update(tolerance, n_rows):
    return EMPTY._replace(**design_table(PerUpdate(tolerance), n_rows)._asdict())


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [0.02, 0.2])
def test_a_design_per_update_errs_and_reads_as_its_designs_say(tolerance):
    rows, log_ratio = 0.02 * normal_rows(), -0.8
    test = per_update(tolerance, rows.size)
    counts = updates(rows, log_ratio - rows.sum(), test, 20_000, seed=77)
    gaps = log_ratio - np.log((np.arange(100) + 0.5) / 100)
    distances = np.abs(gaps) / spread(rows)
    places = np.searchsorted(test.distances, distances, side="right") - 1
    given = zip(distances, test.batch_sizes[places], test.epsilons[places], strict=True)
    designs = [(d, int(m), float(e), rows.size) for d, m, e in given]
    error = np.array([sequential_error(*one, all_rows_from=0.5) for one in designs])
    use = np.array([sequential_use(*one, all_rows_from=0.5) for one in designs])
    assert error.max() <= tolerance
    accepted = np.where(gaps > 0.0, 1.0 - error, error).mean()
    assert counts["accepted"].mean() == pytest.approx(accepted, abs=0.02)
    read = counts["n_obs"] - rows.size
    assert read.mean() == pytest.approx(rows.size * use.mean(), rel=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The number of samples is too small")
def test_a_step_counts_its_scans_and_can_be_audited(model_of):
    design = PerUpdate(0.1, batch_sizes=(50, 200), epsilons=(0.01, 0.1))
    model = model_of("logistic")
    step = PerUpdateAustereMH(model=model, taylor_order=0, design=design)
    trace, n_rows = sample(model, step, 100, 100, random_seed=10), 5_000
    stats = trace.sample_stats
    assert (stats["n_obs"] >= n_rows + 50).all()
    assert (stats["n_obs"] <= 2 * n_rows).all()
    assert (stats["full_pass"] == 1).all()
    assert not stats["certified"].any()
    found = audit(trace, step, pairs=8, random_seed=11)
    assert (found["pairs"]["rows_read"] >= n_rows).all()
    message = str(found["message"].sel(check="normality").values)
    assert "Every decision evaluated all observations" not in message
