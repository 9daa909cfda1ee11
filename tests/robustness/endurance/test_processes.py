"""Every way to start processes, for every step: the draws of one process, bit for bit."""

import multiprocessing

import numpy as np
import pytest
from pymc.sampling.parallel import ParallelSamplingError

from helpers.altered import with_tables
from helpers.recording import record
from helpers.zoo import METHODS, sample
from pymc_minibatch_mh import Bounds, TunaMH
from pymc_minibatch_mh.errors import BoundViolationError
from robustness.conformance.harness import same_draws

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

SEED, CHAINS, DRAWS, TUNE = 20_260_305, 3, 150, 150
START_METHODS = ("fork", "forkserver", "spawn")
MODELS = ("two_likelihoods", "student")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", METHODS)
def test_processes_draw_what_one_process_draws(model_of, prepared, method, model):
    step = prepared(model, method, updates_per_draw=3)
    settings = {"draws": DRAWS, "tune": TUNE, "chains": CHAINS, "random_seed": SEED}
    serial = sample(model_of(model), step, **settings)
    for start_method in START_METHODS:
        parallel = sample(model_of(model), step, **settings, cores=2, mp_ctx=start_method)
        same_draws(serial, parallel)
    record(
        "robustness/endurance",
        f"processes, {method}, {model}",
        asked="serial, fork, forkserver and spawn draw the same, bit for bit",
        measured=f"{CHAINS} chains of {TUNE} + {DRAWS} draws of 3 updates: the same in "
        f"{len(START_METHODS)} of {len(START_METHODS)}",
        seed=SEED,
    )


@pytest.mark.parametrize("start_method", START_METHODS)
def test_an_error_in_a_worker_reaches_the_first_process(model_of, start_method):
    model, rows = model_of("two_likelihoods"), 5_000
    step = TunaMH(model=model, taylor_order=1, bounds=Bounds(np.full(rows, 1e3)))
    # An audit would find these before sampling; a worker only meets them in a row that it reads.
    step = with_tables(step, 1e-8)
    with pytest.raises(ParallelSamplingError, match="times its bound in the move") as raised:
        sample(model, step, DRAWS, TUNE, cores=2, mp_ctx=start_method, random_seed=SEED)
    assert isinstance(raised.value.__cause__, BoundViolationError)
    # PyMC does not wait for a worker that is still starting.
    for worker in multiprocessing.active_children():
        worker.join(120.0)
    assert multiprocessing.active_children() == []
