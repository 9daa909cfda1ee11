"""Forecasts of updates of small groups: effective draws along a scale, and seconds of each way."""

from functools import cache

import numpy as np
import pytest

from helpers.small_groups import panel
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.bounds import effects
from pymc_minibatch_mh.plan import group_forecast, groups
from pymc_minibatch_mh.plan.group_forecast import (
    effective_share,
    forecast_groups,
    log_ratios,
    seconds_one_at_a_time,
    share_along_scale,
)
from pymc_minibatch_mh.reference.node_rule import effect_moments


@cache
def plan():
    """Return a plan of 400 groups, in the scale itself."""
    return TunaMH(model=panel(400, each=5, tau=0.9), blocks="groups").plan


def share_by_matrix(z, log_ratio):
    """Share of effective draws of an independence sampler on places, from its whole matrix."""
    proposed = np.exp(-0.5 * z**2)
    proposed /= proposed.sum()
    weights = np.exp(log_ratio - log_ratio.max())
    matrix = np.minimum(1.0, weights / weights[:, None]) * proposed
    matrix += np.diag(1.0 - matrix.sum(axis=1))
    posterior = weights * proposed / (weights @ proposed)
    f = z - posterior @ z
    # Fundamental matrix of the chain.
    limit = np.tile(posterior, (z.size, 1))
    sums = 2.0 * np.linalg.solve(np.eye(z.size) - matrix + limit, f) - f
    return (posterior @ f**2) / (posterior @ (f * sums))


@pytest.mark.parametrize(("slope", "bend"), [(0.0, 0.0), (0.12, 0.0), (0.0, 0.05)])
def test_effective_draws_are_those_of_the_matrix_of_the_chain(slope, bend):
    z = np.linspace(-4.5, 5.5, 21)
    fine = np.linspace(-4.5, 5.5, 400)
    wanted = share_by_matrix(fine, slope * fine + bend * fine**2)
    assert effective_share(z, slope * z + bend * z**2) == pytest.approx(wanted, rel=0.1)


def test_a_tail_beyond_the_proposals_leaves_few_effective_draws():
    z = np.linspace(-4.5, 5.5, 21)
    assert effective_share(z, 0.0 * z) == pytest.approx(1.0, abs=0.01)
    assert effective_share(z, 0.3 * z**2) < 0.2


def test_ratios_are_those_of_the_posterior_to_the_proposal(monkeypatch):
    monkeypatch.setattr(group_forecast, "ENDS", (-2.0, 2.0))
    target, reference = plan().target, plan().reference
    z, logs = log_ratios(target, reference)
    (scale,) = target.compiled.layout.scales
    line = reference.factor[scale.coordinate] / np.linalg.norm(reference.factor[scale.coordinate])
    wanted = []
    for number in z:
        x = reference.centre + number * (reference.factor @ line)
        wanted.append(target.log_prior(x) + target.log_likelihood(x) + 0.5 * number**2)
    np.testing.assert_allclose(logs - logs[0], np.array(wanted) - wanted[0], atol=1e-6)


def test_few_groups_stand_for_all(monkeypatch):
    every = share_along_scale(plan().target, plan().reference)
    assert 0.4 < every < 1.0
    monkeypatch.setattr(group_forecast, "SOME_GROUPS", 100)
    some = share_along_scale(plan().target, plan().reference)
    assert some != every
    assert some == pytest.approx(every, abs=0.15)


@pytest.mark.parametrize(
    ("shares", "evaluated", "is_better"),
    [
        pytest.param((0.9, 0.6), (600, 20), True, id="fewer groups"),
        pytest.param((0.9, 0.6), (600, 590), False, id="more draws"),
        pytest.param((0.6, 0.9), (20, 600), False, id="more groups"),
        pytest.param((0.05, 0.6), (1, 400), True, id="no draws"),
        pytest.param((0.6, 0.05), (400, 1), False, id="no draws of the square"),
    ],
)
def test_the_coordinate_of_a_scale_is_that_of_less_time(shares, evaluated, is_better, monkeypatch):
    """An effective draw takes less time by either more of them or fewer groups in an update."""
    target, references = plan().target, [plan().reference._replace(order=k) for k in (2, 3)]

    class Bounds:
        def __init__(self, _, reference):
            self.k = reference.order - 2

        def forecast_evaluated(self):
            return evaluated[self.k]

    monkeypatch.setattr(group_forecast, "NodeBoundsPass", Bounds)
    monkeypatch.setattr(group_forecast, "log_ratios", lambda _, x: (None, shares[x.order - 2]))
    monkeypatch.setattr(group_forecast, "effective_share", lambda _, share: share)
    pairs = [(target, reference) for reference in references]
    assert groups._is_better_squared(*pairs) is is_better


def test_groups_are_evaluated_as_often_as_forecast():
    found = forecast_groups(plan().target, plan().reference)
    draws = np.random.default_rng(3).standard_normal((400, 2, plan().reference.size))
    headers, c = plan().tables.heads_of_drawn, plan().tables.c
    lengths = np.linalg.norm(draws, axis=2)
    holds = (lengths[:, None] <= headers[:, :1]).all(axis=2)
    totals = np.where(holds, headers[:, 2], np.inf).min(axis=1)
    drawn = totals * (lengths**3).sum(axis=1) / 6.0
    wanted = drawn[np.isfinite(drawn)].mean() + plan().tables.heavy.size
    assert c.shape[1] == 400
    assert found.evaluated == pytest.approx(wanted, rel=0.4)


def test_effects_that_rows_determine_move_fast_one_at_a_time():
    target = plan().target
    moments = effect_moments(target.group_rows, plan().reference.centre)
    narrow, wide = (
        seconds_one_at_a_time(target, moments._replace(factor=by * moments.factor))
        for by in (0.1, 1.0)
    )
    assert narrow < 0.5 * wide


def test_the_faster_way_is_chosen_and_told(monkeypatch):
    """An effective draw takes 4 times as long as by the other way, or 40 times."""
    monkeypatch.setattr(effects, "draw_and_count", lambda *_: pytest.fail("effects are drawn"))
    for seconds, is_chosen in ((4e-3, True), (4e-2, False)):
        monkeypatch.setattr(groups, "seconds_one_at_a_time", lambda *_: 1e-3)
        forecast = group_forecast.GroupForecast(1.0, 2.0, seconds)
        monkeypatch.setattr(groups, "forecast_groups", lambda *_, one=forecast: one)
        plan = TunaMH(model=panel()).plan
        assert bool(plan.integrated) is is_chosen
        assert "1 ms with effects one at a time" in plan.reason
