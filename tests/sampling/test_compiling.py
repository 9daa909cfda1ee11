"""Threads compile nothing, and change nothing that PyTensor is configured by."""

import copy
import threading
from contextlib import contextmanager

import numpy as np
import pymc as pm
import pytensor
import pytest

from helpers import models
from helpers.models import bounded
from helpers.prepared import dumps, loads
from helpers.tiers import fast
from helpers.zoo import METHODS
from pymc_minibatch_mh import (
    BarkerMinibatchMH,
    CustomProposal,
    CustomTestMH,
    Langevin,
    PenaltyMH,
    PoissonMH,
    TunaMH,
    audit,
    explain,
    log_likelihood,
    sample,
)
from pymc_minibatch_mh.bounds import bound_check
from pymc_minibatch_mh.chain import chain as chains
from pymc_minibatch_mh.compiled import model as compiled_model
from pymc_minibatch_mh.compiled.scalar_functions import without_reordering
from pymc_minibatch_mh.expressions.graph import LoweringError
from pymc_minibatch_mh.reference import arrow_sums as element_rows
from pymc_minibatch_mh.reference import full_data
from sampling.compiling import Watch, stop_watching, watch
from steps import stored

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

QUIET = {"quiet": True, "compute_convergence_checks": False}
RUN = {"tune": 120, "chains": 2, "cores": 2, "random_seed": 5, **QUIET}


@contextmanager
def watched():
    """Fail where a thread compiles, while all centres move and passes over rows have parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "MIN_SHIFT", 0.0)
        for room in (full_data, element_rows, bound_check):
            patch.setattr(room, "CHUNK", 400)
        patch.setattr(full_data, "BLOCK_ROWS", 4_096)
        watch()
        try:
            yield
        finally:
            stop_watching()


def run_in_every_way(step, model):
    """Sample with a step as it is, as one of another process, and on from where it ended."""
    trace = sample(step, 20, **RUN)
    sent = dumps(step, model)
    sample(loads(sent, model), 20, **RUN)
    sample(loads(sent, model), 20, resume=trace, **QUIET)
    with model:
        pm.sample(20, step=loads(sent, model), **RUN | {"cores": 1})


@pytest.mark.parametrize("method", fast(METHODS, ("PenaltyMH",)))
def test_no_method_compiles_in_threads(prepared, model_of, method):
    with watched():
        run_in_every_way(prepared("student", method), model_of("student"))


def nudge(position, new, rng, state, metric, rows):
    for i in range(position.size):
        new[i] = position[i] + state[0] * rng.standard_normal()
    return 0.0


def more(noise, n, total, numbers):
    return n + 100


def decide(log_ratio, variance, skewness, n, total, uniform, numbers):
    probability = np.exp(min(0.0, log_ratio - 0.5 * variance))
    return (1.0 if uniform < probability else 0.0), probability, 0.0


def small():
    return stored.logistic(2_000)[0]


def normal():
    with pm.Model() as model:
        pm.Normal(
            "y", pm.Normal("level"), 1.0, observed=np.random.default_rng(1).normal(size=1_200)
        )
    return model


#: What steps do beside the usual: model, method and settings.
KINDS = {
    "effects one by one": (models.crossed_logistic, TunaMH, {"blocks": True}),
    "Langevin": (small, TunaMH, {"proposal": Langevin()}),
    "a batch in a move": (small, TunaMH, {"proposal": Langevin(batch_size=50)}),
    "a move of a user": (small, TunaMH, {"proposal": CustomProposal(nudge, state=[0.1])}),
    "ranges": (bounded, PoissonMH, {}),
    "annealed": (small, PenaltyMH, {"temperature": [(0, 4.0), (60, 1.0)], "taylor_order": 0}),
    "stored": (lambda: stored.logistic()[1], TunaMH, {}),
    "stored, drawn evenly": (lambda: stored.logistic()[1], BarkerMinibatchMH, {}),
    "a graph": (normal, PenaltyMH, {"taylor_order": 0}),
}


@pytest.mark.parametrize("kind", fast(KINDS, ("a move of a user",)))
def test_no_kind_of_step_compiles_in_threads(kind, monkeypatch):
    def refuse(*_):
        raise LoweringError("an operation", "is left as it is")

    model, method, settings = KINDS[kind]
    if kind == "a graph":
        monkeypatch.setattr(compiled_model, "FormRows", refuse)
    with watched():
        run_in_every_way(method(model=(made := model()), **settings), made)


def test_a_test_of_a_user_does_not_compile_in_threads():
    with watched():
        step = CustomTestMH(more, decide, controls="the noise", model=(model := small()))
        run_in_every_way(step, model)


@pytest.mark.slow
def test_a_step_that_was_saved_does_not_compile_in_threads(prepared, model_of, tmp_path):
    prepared("student").save(tmp_path / "step.npz")
    model = model_of("student")
    with watched():
        run_in_every_way(TunaMH(model=model, prepared=tmp_path / "step.npz"), model)


@pytest.mark.slow
def test_what_follows_sampling_does_not_compile_in_threads(prepared, model_of):
    model = model_of("student")
    with watched():
        trace = sample(prepared("student"), 50, **RUN)
        sent = dumps(prepared("student"), model)
        audit(trace, loads(sent, model), pairs=20, random_seed=1)
        explain(loads(sent, model), draws=100, tune=100, nuts=False, random_seed=1)
        log_likelihood(trace, range(1_000), model=model)


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_threads_of_processes_do_not_compile(prepared, model_of, start):
    step = copy.copy(prepared("student"))
    step.watch = Watch()
    with watched(), model_of("student"):
        trace = pm.sample(20, step=step, mp_ctx=start, **RUN)
    assert trace.posterior.sizes["chain"] == 2


def test_what_is_compiled_at_a_time_leaves_the_configuration():
    inside, beside, go_on, go_on_beside = (threading.Event() for _ in range(4))
    found = []

    def compiles(begun, until):
        with without_reordering():
            begun.set()
            until.wait()
            found.append(pytensor.config.numba__fastmath)

    with pytensor.config.change_flags(numba__fastmath=True):
        threads = [
            threading.Thread(target=compiles, args=(inside, go_on)),
            threading.Thread(target=compiles, args=(beside, go_on_beside)),
        ]
        threads[0].start()
        inside.wait()
        threads[1].start()
        # Where both are inside at once, this is soon; where they take turns, never.
        beside.wait(0.2)
        go_on.set()
        threads[0].join()
        go_on_beside.set()
        threads[1].join()
        assert found == [False, False]
        assert pytensor.config.numba__fastmath
