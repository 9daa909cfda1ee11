"""χ is chosen in warm-up, and a chain never stays where it reads all rows for lack of a choice."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from altered import with_method
from pymc_minibatch_mh import TunaMH

ROWS, COLUMNS = 3_000, 40


@pytest.fixture(scope="module")
def many_columns():
    """A logistic regression in which χ = 1 makes every move read all rows."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(ROWS), rng.standard_normal((ROWS, COLUMNS - 1))])
    y = rng.random(ROWS) < expit(X @ rng.normal(0.0, 0.2, COLUMNS))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=COLUMNS)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y.astype(np.int8))
    return model


@pytest.fixture(scope="module")
def step(many_columns):
    return TunaMH(model=many_columns)


def share_of_full_passes(step, tune, draws, before=None):
    """Return the share of updates after warm-up that read all rows."""
    step.setup_chain(np.random.default_rng(3), tune, draws)
    if before is not None:
        step.chain.change(test=step.chain.state.test._replace(chi=before))
    point = step.gaussian_draw(np.random.default_rng(2), 1.0)
    full = 0
    for draw in range(tune + draws):
        if draw == tune:
            step.stop_tuning()
        point, (stats,) = step.step(point)
        full += stats["full_pass"] if draw >= tune else 0
    return full / draws


def test_chi_of_one_makes_every_move_read_all_rows_and_is_kept(step):
    fixed = with_method(step, chi=1.0)
    assert share_of_full_passes(fixed, 100, 50, before=1.0) == 1.0
    assert fixed.chain.state.test.chi == 1.0


def test_an_automatic_chi_needs_no_full_passes(step):
    assert share_of_full_passes(step, 200, 200) < 0.05


def test_an_automatic_chi_without_warm_up_needs_no_full_passes(step):
    assert share_of_full_passes(step, 0, 200) < 0.05


def test_an_automatic_chi_that_reads_all_rows_is_found_to_be_too_large(step):
    assert share_of_full_passes(step, 200, 200, before=1.0) < 0.05
