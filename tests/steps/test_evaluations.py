"""The stat `n_obs` against a count of its own, made where the model's rows are evaluated.

An evaluation is one call of a model's row function for one observation: the change of its
log-likelihood between two positions. An observation that is evaluated twice in an update counts
twice.
"""

import copy

import numpy as np
import pytest

from helpers.models import GROUPED
from plan.test_influential import rare_groups
from pymc_minibatch_mh import AustereMH, TunaMH
from pymc_minibatch_mh.chain.program import SamplerSpec
from pymc_minibatch_mh.native.library import ffi
from pymc_minibatch_mh.reference import full_data
from steps import stored

DRAWS = 400


class Counter:
    """Evaluated rows, counted by functions that stand before those of models."""

    def __init__(self, monkeypatch):
        self._calls, self._kept = [], {}
        posterior, moments = SamplerSpec.posterior, full_data.kernels.moments_of_move

        def counted_posterior(*arguments):
            found = posterior(*arguments)
            return found._replace(rows=self._counted(found.rows))

        def counted_moments(space, *arguments):
            return moments(self._counted(space), *arguments)

        monkeypatch.setattr(SamplerSpec, "posterior", counted_posterior)
        monkeypatch.setattr(full_data.kernels, "moments_of_move", counted_moments)

    @property
    def rows(self):
        """How many have been evaluated since the last call of `begin`."""
        return sum(self._calls)

    def begin(self):
        self._calls.clear()

    def _counted(self, space):
        """Return rows whose differences are counted."""
        if space.terms is None:
            return space._replace(differences=self._graph(space))
        terms = ffi.new("mh_term[]", [space.terms.at[k] for k in range(space.n_terms)])
        for term in terms:
            term.difference = self._of_term(term.difference)
        address = int(ffi.cast("intptr_t", terms))
        self._kept[address] = terms
        return space._replace(terms=address)

    def _of_term(self, plain):
        def difference(inputs, outputs, n):
            self._calls.append(n)
            plain(inputs, outputs, n)

        return self._kept.setdefault(plain, ffi.callback("mh_row_function", difference))

    def _graph(self, space):
        plain = ffi.cast("mh_graph_differences", space.differences.address)

        def differences(position, new, centre, rows, ends, *rest):
            self._calls.append(ends[space.n_terms - 1])
            plain(position, new, centre, rows, ends, *rest)

        return self._kept.setdefault(plain, ffi.callback("mh_graph_differences", differences))


def counted(monkeypatch, step, point, draws=DRAWS, **settings):
    """Return the stats of draws, after those that find out whether a chain can start."""
    counter = Counter(monkeypatch)
    step = copy.copy(step)
    step.setup_chain(np.random.default_rng(1), 0, draws)
    point, _ = step.step(point)
    step.chain.change(test=step.chain.state.records.test._replace(**settings))
    counter.begin()
    stats = []
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
    "confidence by a scan": ("logistic", "ConfidenceScanMH", {}),
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


@pytest.mark.parametrize("method", [TunaMH, AustereMH])
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
