"""Runs that are killed at random moments, again and again, draw what one run does, bit for bit."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from helpers.models import two_likelihoods
from pymc_minibatch_mh import TunaMH, sample
from pymc_minibatch_mh.sampling import checkpoint

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)

RUN = {"tune": 20_000, "chains": 3, "random_seed": 8, "discard_tuned_samples": False}
QUIET = {"quiet": True, "compute_convergence_checks": False}
DRAWS, KILLS = 120_000, 6
fork = multiprocessing.get_context("fork")


def part_of_run(step, folder, cores, begun):
    """Go on with the run in a folder, or begin it."""
    checkpoint.MIN_SECONDS = 0.01
    checkpoint.MAX_WRITING_SHARE, checkpoint.MAX_BLOCK_SHARE = 1.0, 0.0
    resumes = (folder / "run.npz").exists()
    way = {"resume" if resumes else "checkpoint": folder}
    begun.set()
    sample(step, DRAWS, cores=cores, **way, **RUN, **QUIET)


def same_draws(one, other):
    for group in ("warmup_posterior", "warmup_sample_stats", "posterior", "sample_stats"):
        for name in set(one[group].data_vars) - {"perf_counter_diff"}:
            np.testing.assert_array_equal(one[group][name], other[group][name])


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_draws_what_one_does(tmp_path):
    step = TunaMH(model=two_likelihoods())
    whole = sample(step, DRAWS, cores=2, **RUN, **QUIET)
    folder, rng, codes = tmp_path / "run", np.random.default_rng(4), []
    for k in range(KILLS):
        begun = fork.Event()
        worker = fork.Process(target=part_of_run, args=(step, folder, 1 + k % 3, begun))
        worker.start()
        begun.wait()
        time.sleep(rng.uniform(0.0, 0.4))
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        codes.append(worker.exitcode)
    assert -signal.SIGKILL in codes
    way = {"resume" if (folder / "run.npz").exists() else "checkpoint": folder}
    same_draws(sample(step, DRAWS, cores=2, **way, **RUN, **QUIET), whole)


#: Builds model and step again, and goes on.
ANEW = """
import sys
import numpy as np
from robustness.endurance.test_checkpoint import QUIET, RUN
from pymc_minibatch_mh import TunaMH, sample
from helpers.models import two_likelihoods

step, given = TunaMH(model=two_likelihoods()), RUN | {"tune": 300} | QUIET
trace = sample(step, 900, resume=sys.argv[1], **given)
np.savez(sys.argv[2], **{name: trace.posterior[name].to_numpy() for name in trace.posterior})
"""


# Another process takes over a folder in sampling/test_resume.py as well.
@pytest.mark.slow
def test_another_process_goes_on_with_the_same_bits(tmp_path):
    step, given = TunaMH(model=two_likelihoods()), RUN | {"tune": 300} | QUIET
    whole = sample(step, 900, **given)
    sample(step, 200, checkpoint=tmp_path / "run", **given)
    path = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "5"}
    files = tmp_path / "run", tmp_path / "draws.npz"
    subprocess.run([sys.executable, "-c", ANEW, *files], env=os.environ | path, check=True)
    with np.load(files[1]) as draws:
        for name, values in draws.items():
            np.testing.assert_array_equal(values, whole.posterior[name])
