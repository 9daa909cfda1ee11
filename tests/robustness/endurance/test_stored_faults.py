"""Files that go wrong while other processes sample, and processes that die: no hang, no orphan."""

import multiprocessing
import os
import signal
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import zarr
from pymc.sampling.parallel import ParallelSamplingError
from scipy.special import expit

from data.stored_rows import in_npy
from pymc_minibatch_mh import Rows, TunaMH, sample
from pymc_minibatch_mh.data.source import ArrayStorage
from pymc_minibatch_mh.errors import SourceError

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Could not extract data from symbolic observation"),
]

N = 1_500
RNG = np.random.default_rng(3)
X = RNG.uniform(0.2, 1.0, N)
Y = (RNG.random(N) < expit(0.7 * X)).astype(np.int8)


def from_npy(folder):
    return in_npy(folder, {"x": X, "y": Y}), folder / "x.npy"


def from_zarr(folder):
    group = zarr.open_group(folder / "z", mode="w")
    for name, array in (("x", X), ("y", Y)):
        group.create_array(name, shape=N, chunks=500, dtype=array.dtype)[:] = array
    return Rows.from_zarr(folder / "z"), folder / "z" / "x" / "c" / "1"


def from_parquet(folder):
    (folder / "p").mkdir()
    for part, lines in enumerate(np.array_split(np.arange(N), 3)):
        pd.DataFrame({"x": X[lines], "y": Y[lines]}).to_parquet(folder / "p" / f"{part}.parquet")
    return Rows.from_parquet(folder / "p"), folder / "p" / "1.parquet"


def step_on(rows):
    """Return a step of whose moves tens of rows decide, so that rows are read again and again."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=b * rows.data("x"), observed=rows.data("y"))
    return model, TunaMH(model=model, taylor_order=0)


def sampled(model, step, callback=None):
    """Sample in two processes of their own, far longer than until the fault."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm.sample(
            200_000, tune=0, chains=2, cores=2, step=step, callback=callback, progressbar=False,
            quiet=True, random_seed=1, compute_convergence_checks=False,
        )  # fmt: skip


def none_is_left():
    """Wait for the workers, as PyMC does not for those that are still starting."""
    for worker in multiprocessing.active_children():
        worker.join(60.0)
    return multiprocessing.active_children() == []


#: Each storage notices each of them: see data/test_storages.py.
FAULTS = {
    "cut": (from_npy, lambda path: os.truncate(path, 10), "10 bytes"),
    "removed": (from_zarr, lambda path: path.unlink(), "no longer exists"),
    "written to": (from_parquet, lambda path: os.utime(path, ns=(1, 1)), "was written to"),
}


@pytest.mark.parametrize(("store", "fault", "message"), FAULTS.values(), ids=FAULTS)
def test_a_file_that_goes_wrong_ends_sampling_by_its_name(store, fault, message, tmp_path):
    rows, path = store(tmp_path)
    model, step = step_on(rows)
    seen = []

    def told(trace, draw):
        seen.append(draw.draw_idx)
        if len(seen) == 30:
            fault(path)

    with pytest.raises(ParallelSamplingError) as raised:
        sampled(model, step, told)
    cause = raised.value.__cause__
    assert isinstance(cause, SourceError)
    assert path.name in str(cause)
    assert message in str(cause)
    assert 30 <= len(seen) < 400_000
    assert none_is_left()


@pytest.mark.parametrize("store", [from_npy, from_zarr, from_parquet], ids=lambda f: f.__name__)
def test_a_file_that_is_gone_is_named_where_chains_begin(store, tmp_path):
    rows, path = store(tmp_path)
    _, step = step_on(rows)
    path.unlink()
    # Not as a start that has no density.
    with pytest.raises(SourceError, match=f"{path.name}.* no longer exists"):
        sample(step, draws=10, tune=10, chains=2, progressbar=False)


class Deadly(ArrayStorage):
    """Arrays whose reading ends every other process than the first."""

    def __init__(self, arrays):
        super().__init__(arrays)
        self.first, self.reads = os.getpid(), 0

    def read(self, names, rows):
        if os.getpid() != self.first:
            self.reads += 1
            if self.reads > 3:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().read(names, rows)


def test_a_process_that_is_killed_while_it_reads_ends_sampling():
    model, step = step_on(Rows.of(Deadly({"x": X, "y": Y})))
    with pytest.raises((RuntimeError, EOFError, ConnectionError)):
        sampled(model, step)
    assert none_is_left()
