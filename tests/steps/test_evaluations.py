"""The stat `n_obs` against a count of its own, made where the model's rows are evaluated.

An evaluation is one call of a model's row function for one observation: the change of its
log-likelihood between two positions. An observation that is evaluated twice in an update counts
twice.
"""

import copy
import ctypes

import numpy as np
import pytest
from numba import njit

from every import every
from grouped import MODELS as GROUPED
from plan.test_heavy import rare_groups
from pymc_minibatch_mh import AustereMH, TunaMH
from pymc_minibatch_mh.chain import program
from pymc_minibatch_mh.kernels.handle import address_of, function_at
from pymc_minibatch_mh.kernels.roles import EVALUATE, EVALUATE_SIGNATURE
from pymc_minibatch_mh.reference import full_data
from steps import stored

DRAWS = 400


class Counter:
    """Evaluated rows, counted by functions that stand before those of models."""

    def __init__(self, monkeypatch):
        self.rows = 0
        self._add = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._count)
        self._before = {}
        for module in (program, full_data):
            monkeypatch.setattr(module, "address_of", self._address_of)

    def _count(self, rows):
        self.rows += rows

    def _address_of(self, function):
        address = address_of(function)
        if function.nopython_signatures != [EVALUATE_SIGNATURE]:
            return address
        if address not in self._before:
            add = self._add

            @njit(EVALUATE_SIGNATURE, nogil=True)
            def counting(here, there, centre, rows, ends, context, differences, scales):
                add(rows.size)
                evaluate = function_at(address, EVALUATE)
                evaluate(here, there, centre, rows, ends, context, differences, scales)

            self._before[address] = counting
        return address_of(self._before[address])


def counted(monkeypatch, step, point, draws=DRAWS, **settings):
    """Return the stats of draws, after those that find out whether a chain can start."""
    counter = Counter(monkeypatch)
    step = copy.copy(step)
    step.setup_chain(np.random.default_rng(1), 0, draws)
    point, _ = step.step(point)
    step.chain.change(test=step.chain.state.test._replace(**settings))
    counter.rows, stats = 0, []
    for _ in range(draws):
        point, (one,) = step.step(point)
        stats.append(one)
    assert counter.rows == sum(one["n_obs"] for one in stats)
    return {name: np.array([one[name] for one in stats]) for name in ("n_obs", "full_pass")}


#: Name -> model, method, settings.
WAYS = {
    "tuna": ("logistic", "TunaMH", {}),
    "factorized": ("logistic", "FactorizedMH", {}),
    "MH-SS": ("logistic", "ScalableSubsamplingMH", {}),
    "firefly": ("logistic", "FireflyMH", {}),
    "barker": ("logistic", "BarkerMinibatchMH", {}),
    "penalty": ("logistic", "PenaltyMH", {}),
    "poisson": ("bounded", "PoissonMH", {}),
    "confidence": ("logistic", "ConfidenceMH", {"taylor_order": 1, "delta": 1e-6}),
    "confidence by a scan": ("logistic", "ConfidenceMH", {"range": "scan"}),
    "austere": ("logistic", "AustereMH", {"taylor_order": 1, "epsilon": 1e-6}),
}
#: Ways in which later looks of some updates read all rows.
MIXED = "confidence", "austere"


@pytest.mark.parametrize("name", WAYS)
def test_every_evaluation_counts(name, monkeypatch, model_of, prepared):
    model, method, settings = WAYS[name]
    step = prepared(model, method, **settings)
    stats = counted(monkeypatch, step, model_of(model).initial_point())
    assert stats["n_obs"].sum() > 0
    if name in MIXED:
        whole = stats["full_pass"] == 1
        assert 0 < whole.sum() < DRAWS
        # Rows of earlier looks are not read again.
        assert (stats["n_obs"][whole] == step.plan.n_rows).all()


@every("method", [TunaMH, AustereMH])
def test_influential_rows_count_as_often_as_they_are_evaluated(method, monkeypatch):
    model, members = rare_groups()
    if method is TunaMH:
        # Which pairs all rows decide depends on the size of the move.
        step = TunaMH(model=model, chi=0, full_pass_above=members.size + 2)
        heavy = step.tables.heavy
    else:
        step = AustereMH(model=model, taylor_order=1, epsilon=1e-6)
        heavy = step.plan.heavy
    assert heavy.size == members.size
    stats = counted(monkeypatch, step, model.initial_point())
    assert 0 < (stats["full_pass"] == 1).sum() < DRAWS


def test_groups_count_as_often_as_they_are_evaluated(monkeypatch):
    model = GROUPED["logistic"]()
    counted(monkeypatch, TunaMH(model=model), model.initial_point())


def test_stored_rows_count_again_where_all_are_evaluated(monkeypatch):
    _, model, _ = stored.logistic()
    # That an update may read them all is refused.
    step = AustereMH(model=model, taylor_order=1, epsilon=0.4)
    stats = counted(monkeypatch, step, model.initial_point(), epsilon=1e-9)
    assert stats["n_obs"].max() > step.plan.n_rows
