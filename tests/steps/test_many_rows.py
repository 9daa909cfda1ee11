"""The warning about steps that are forecast to evaluate many observations."""

import logging
from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.chain import starts
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.starts import rows_of_trial
from pymc_minibatch_mh.steps.many_rows import (
    TRIAL_UPDATES,
    penalty_forecast,
    shares_of_bounds,
    typical_ceilings,
    warn_of_many_rows,
)

ROWS, COLUMNS = 1_500, 110


@cache
def wide():
    """Return a regression with few observations for each of its many coefficients."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(ROWS, COLUMNS))
    y = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-0.3 * X[:, 0]))
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=COLUMNS)
        pm.Bernoulli("y", logit_p=pm.Normal("a") + X @ b, observed=y.astype(int))
    return model


@cache
def step_on_wide():
    """Return a step on the wide regression."""
    return TunaMH(model=wide())


def warnings_of(program):
    """Return what the package logs about many rows."""
    messages, logger = [], logging.getLogger("pymc")
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger.addHandler(handler)
    try:
        warn_of_many_rows("TunaMH", program)
    finally:
        logger.removeHandler(handler)
    return messages


def test_a_step_says_that_it_is_forecast_to_evaluate_many_rows():
    step = step_on_wide()
    messages = warnings_of(step.program)
    assert len(messages) == 1
    text = messages[0]
    assert text.startswith("TunaMH: an update is forecast to evaluate ")
    assert f" of {ROWS:,} observations of 'y', because proposals move {COLUMNS + 1} " in text
    assert "of them vanish if 'b' is known" in text
    assert "'a'" not in text
    assert "blocks=True" not in text
    count = penalty_forecast(step.plan)
    assert f"PenaltyMH(), which is approximate, is forecast to evaluate {count:,}. " in text


def responses(groups=30, rows=1_500):
    """Return saturating responses of groups with different levels."""
    rng = np.random.default_rng(3)
    group, x = np.arange(rows) % groups, rng.gamma(1.5, 0.6, (rows, 2))
    noise = 0.3 * rng.normal(size=groups)[group] + 0.4 * rng.normal(size=rows)
    with pm.Model() as model:
        lam, beta = pm.Gamma("lam", 3.0, 2.0, shape=2), pm.HalfNormal("beta", 1.0, shape=2)
        level = (pm.HalfNormal("sg", 0.5) * pm.Normal("z", 0.0, 1.0, shape=groups))[group]
        mean = level + (beta * pm.math.tanh(0.5 * lam * x)).sum(axis=1)
        y = np.tanh(0.5 * x).sum(axis=1) + noise
        pm.Normal("y", mean, pm.HalfNormal("s", 1.0), observed=y)
    return model


def test_effects_are_not_blamed_for_bounds_of_what_moves_beside_them():
    program = TunaMH(model=responses(), blocks=True).program
    others, of_effects = typical_ceilings(program.plan)
    assert others > 3.0 * of_effects > 0.0
    (text,) = warnings_of(program)
    assert "because proposals move the 6 unknowns beside the effects 'z' together, and " in text
    assert f"is forecast to evaluate {penalty_forecast(program.plan):,}. " in text


def test_a_step_with_few_rows_says_nothing(prepared):
    assert not warnings_of(prepared("poisson", "TunaMH").program)


def test_far_proposals_before_a_chain_adapts_are_not_forecast(prepared):
    program = prepared("normal_mixture", "TunaMH").program
    first = Chain(program, np.random.default_rng(1), adapting=False).advance(200).counts["n_obs"]
    assert first.mean() > 0.05 * program.plan.n_rows, "these bounds are wide at first"
    assert rows_of_trial(program, TRIAL_UPDATES) < 0.01 * program.plan.n_rows


def test_a_trial_on_few_rows_lasts_until_a_chain_has_adapted(prepared, monkeypatch):
    program = prepared("normal_mixture", "TunaMH").program
    monkeypatch.setattr(starts, "MAX_PASSES", 1)
    assert rows_of_trial(program, TRIAL_UPDATES) < 0.01 * program.plan.n_rows
    monkeypatch.setattr(starts, "MAX_READ", 1)
    assert rows_of_trial(program, TRIAL_UPDATES) > 0.05 * program.plan.n_rows


def test_a_penalty_step_says_so_as_well(prepared):
    """Many observations meet their kink."""
    rng = np.random.default_rng(2)
    with pm.Model() as model:
        mean = rng.normal(size=(4_000, 20)) @ pm.Normal("b", 0.0, 1.0, shape=20)
        pm.Laplace("y", mean, 1.0, observed=rng.laplace(size=4_000))
    told = warnings_of(PenaltyMH(model=model).program)
    assert len(told) == 1
    assert " of 4,000 observations of 'y', because the control variates leave" in told[0]
    assert not warnings_of(prepared("poisson", "PenaltyMH").program)


def test_bounds_are_shared_among_the_variables_that_make_them_wide(prepared):
    shares = shares_of_bounds(prepared("normal_scale", "TunaMH").plan)
    # Given the scale, the log-likelihood is quadratic.
    scales = [name for name, share in shares.items() if share == pytest.approx(1.0)]
    assert len(scales) == 1
    assert "sigma" in scales[0] or "scale" in scales[0]
    assert all(0.0 <= share <= 1.0 for share in shares.values())


def test_the_forecast_of_the_penalty_test_is_what_it_evaluates():
    evaluated = rows_of_trial(PenaltyMH(model=wide()).program, 100)
    assert penalty_forecast(step_on_wide().plan) == pytest.approx(evaluated, rel=0.5)
