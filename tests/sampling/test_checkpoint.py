"""A run in a folder goes on from every moment at which it can have been killed, bit for bit."""

import io
import logging
import shutil
import zipfile
from functools import partial

import numpy as np
import pymc as pm
import pytest

from endurance.test_full_disk import files_of_at_most
from golden.combinations import COMBINATIONS, Combination, of_family
from proposals.test_own_move import adapt, langevin
from pymc_minibatch_mh import OwnMove, PenaltyMH, TunaMH, sample
from pymc_minibatch_mh.chain import chain as chains
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.sampling import checkpoint, workers
from pymc_minibatch_mh.sampling.checkpoint import Checkpoint, filled, leaves
from sampling.models import tall
from zoo import METHODS

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

QUIET = {"progressbar": False, "compute_convergence_checks": False}
#: Of the chains of one run; the second one of several begins when the first one has ended.
RUN = {"tune": 130, "chains": 2, "random_seed": 5, "discard_tuned_samples": False, "cores": 1}
DRAWS = 60
#: What is not the same in a run that was cut: the time.
TIMES = {"perf_counter_diff", "created_at", "sampling_time", "preparation_time"}


def same_trace(one, other):
    """Require equal draws, statistics, groups and attributes, but for times."""
    assert set(one.children) == set(other.children)
    for group in one.children:
        assert set(one[group].data_vars) == set(other[group].data_vars)
        for name in set(one[group].variables) - TIMES:
            np.testing.assert_array_equal(one[group][name], other[group][name], err_msg=name)
        said = [{k: v for k, v in x[group].attrs.items() if k not in TIMES} for x in (one, other)]
        assert repr(said[0]) == repr(said[1])


@pytest.fixture
def often(monkeypatch):
    """Have a block written after every few draws, before the chain goes on."""
    monkeypatch.setattr(workers, "FIRST_BLOCK", 37)
    monkeypatch.setattr(workers, "GROWTH", 1)
    monkeypatch.setattr(workers, "BLOCK_SECONDS", np.inf)
    monkeypatch.setattr(checkpoint.os, "fsync", lambda file: None)
    for name in ("LEAST_SECONDS", "BLOCK_SHARE"):
        monkeypatch.setattr(checkpoint, name, 0.0)
    monkeypatch.setattr(checkpoint, "WRITING_SHARE", np.inf)
    keep = Checkpoint.keep

    def at_once(self, run, number, ended):
        keep(self, run, number, ended)
        if self._last[number] is not None:
            self._last[number].result()

    monkeypatch.setattr(Checkpoint, "keep", at_once)


@pytest.fixture
def moments(monkeypatch, tmp_path):
    """Copy the folder after every file that is written, as a kill leaves it."""
    found, write = [], checkpoint.write_archive

    def written(path, *arrays):
        digest = write(path, *arrays)
        if path.parent.name == "run" and (path.parent / checkpoint.RUN).exists():
            found.append(tmp_path / f"killed {len(found)}")
            shutil.copytree(path.parent, found[-1])
            # What a kill leaves that comes in the middle of a file.
            (found[-1] / "chain-0.npz.part").write_bytes(b"PK half")
        return digest

    monkeypatch.setattr(checkpoint, "write_archive", written)
    return found


#: Chains whose states are not like others.
UNUSUAL = {
    name: COMBINATIONS[name]
    for name in ("rows in files", "annealed", "a test of a user", "crossed effects by elements")
} | {
    "a move that adapts": Combination(
        of_family("poisson"),
        "PenaltyMH",
        {"proposal": partial(OwnMove, langevin, state=[0.01], batch_size=50, adapt=adapt)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ["TunaMH", "FireflyMH", *UNUSUAL])
def test_a_run_goes_on_from_every_moment(prepared, often, moments, monkeypatch, tmp_path, name):
    # Every centre is moved at the end of warm-up.
    monkeypatch.setattr(chains, "MOVED", 0.0)
    way = UNUSUAL.get(name)
    step = way.step(way.model(tmp_path)) if way else prepared("two_likelihoods", name)
    given = RUN | QUIET | ({"tune": 450, "chains": 1} if name == "annealed" else {})
    whole = sample(step, DRAWS, **given)
    same_trace(sample(step, DRAWS, checkpoint=tmp_path / "run", **given), whole)
    assert len(moments) > 8
    for folder in moments:
        same_trace(sample(step, DRAWS, resume=folder, **given), whole)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_on(prepared, method, tmp_path):
    step = prepared("two_likelihoods", method)
    whole = sample(step, DRAWS, thin=3, **RUN, **QUIET)
    sample(step, 20, thin=3, checkpoint=tmp_path / "run", **RUN, **QUIET)
    given = {**RUN, "cores": 2, "chains": None, "random_seed": None}
    same_trace(sample(step, DRAWS, thin=3, resume=tmp_path / "run", **given, **QUIET), whole)
