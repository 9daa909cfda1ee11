"""What the pages claim of rows, moves and tables, where no other test shows it."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from bounds.certified import fit
from helpers.in_library import ratio_to_bound
from helpers.zoo import METHODS, drawn
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.bounds.tables import compiled_metric
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.bound_tables import TOTAL, no_tables, table_of_move
from pymc_minibatch_mh.native.moves import GIVEN
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.structure.row_function import row_functions

ULP = 2.220446049250313e-16


@pytest.mark.parametrize("method", METHODS)
def test_an_update_reads_few_of_the_rows(model_of, prepared, method):
    step = prepared("logistic", method)
    trace = drawn(model_of("logistic"), step, 400, 200, random_seed=61)
    rows = trace.sample_stats["n_obs"].to_numpy()
    assert rows.mean() < 0.2 * step.target.source.n_rows
    if method == "FireflyMH":
        # Of the dark rows, a share q is read; hardly any is bright.
        assert trace.sample_stats["n_bright"].mean() < 5.0
    elif step.chain.certified:
        assert rows.mean() < 20.0
        assert np.median(rows) <= 5.0


def test_more_rows_do_not_mean_more_reading():
    """Bounds sum up to less: there are more rows, in a narrower posterior."""
    totals = []
    for rows in (2_000, 8_000):
        fitted = fit("bernoulli_logit", rows)
        totals.append(fitted.bounds(fitted.reference(2)).tables().headers[0, TOTAL])
    assert totals[1] < 0.7 * totals[0]


def typical_rows(d, n_rows=4_000):
    """Return C M of a logistic regression on d coefficients, for two typical ends of a move."""
    X = np.random.default_rng(62).standard_normal((n_rows, d))
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("b", shape=d), observed=np.arange(n_rows) % 2)
    parts = factorize(model, model.value_vars)
    factor = np.linalg.cholesky(np.linalg.inv(0.25 * X.T @ X + np.eye(d)))
    zero, one = np.zeros(d), np.eye(d)
    reference = Reference(zero, factor, np.linalg.inv(factor), zero, one, 2, 1.0)
    tables = BoundsPass(row_functions(parts), reference, (parts.lower, parts.upper)).tables()
    return tables.headers[-1, TOTAL] * d**1.5 / 3.0


def test_rows_grow_with_the_cube_of_the_number_of_parameters():
    small, large = typical_rows(4), typical_rows(16)
    assert 2.5 < np.log(large / small) / np.log(4.0) < 3.3


def test_a_change_is_checked_up_to_rounding():
    bound, scale = 1e-3, 50.0
    for sign in (-1.0, 1.0):
        for ulps, within in ((0.0, True), (60.0, True), (70.0, False)):
            change = sign * (bound + ulps * ULP * scale)
            assert (ratio_to_bound(change, scale, bound, 1.0) <= 1.0) == within


@cache
def uneven():
    return compiled_metric(lambda position, new: 3.0 if new[0] > position[0] else 1.0)


def table_of(here, there, headers):
    one, zero = np.ones((1, 1)), np.zeros(1)
    reference = Reference(zero, one, one, zero, one, 2, 1.0)
    tables = no_tables()._replace(headers=np.array(headers), metric=uneven())
    return table_of_move(tables, reference, np.array([here]), np.array([there]))


def test_a_metric_is_evaluated_in_both_orders():
    headers = [[np.inf, GIVEN, 1.0]]
    assert table_of(0.1, 0.4, headers) == (0, 3.0)
    assert table_of(0.4, 0.1, headers) == (0, 3.0)


def test_a_move_uses_the_smallest_table_that_holds_for_both_ends():
    headers = [[1.0, GIVEN, 1.0], [5.0, GIVEN, 2.0], [np.inf, GIVEN, 4.0]]
    for ends, table in (((0.5, -0.9), 0), ((0.5, 3.0), 1), ((-3.0, 4.9), 1), ((0.1, 6.0), 2)):
        for here, there in (ends, ends[::-1]):
            assert table_of(here, there, headers)[0] == table
    # A larger region serves where its bounds are smaller.
    assert table_of(0.5, -0.9, [*headers, [7.0, GIVEN, 0.5]])[0] == 3
    # Outside of every region there is none.
    assert table_of(0.1, 6.0, headers[:2])[0] == -1
    assert table_of(6.0, 0.1, headers[:2])[0] == -1
