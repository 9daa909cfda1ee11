"""Rows are released with the models on them: memory and file descriptors."""

import gc
import os
import threading
from copy import deepcopy
from pathlib import Path
from weakref import ref

import cloudpickle
import numpy as np
import pandas as pd
import pymc as pm
import pytest

from data.stored_rows import in_npy
from helpers.tiers import fast
from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH, Rows, TunaMH
from pymc_minibatch_mh.model.stored_ops import stored_arrays

N = 6_000
RNG = np.random.default_rng(4)
ARRAYS = {
    "x": RNG.standard_normal(N),
    "g": RNG.integers(0, 3, N).astype(np.int8),
    "y": RNG.integers(0, 2, N).astype(np.int8),
}


def in_memory(folder):
    return Rows(**ARRAYS)


def in_files(folder):
    return in_npy(folder, ARRAYS)


def in_parquet(folder):
    pd.DataFrame(ARRAYS).to_parquet(folder / "rows.parquet", row_group_size=1_000)
    return Rows.from_parquet(folder / "rows.parquet")


def model_of(rows):
    with pm.Model() as model:
        eta = pm.Normal("a", shape=3)[rows.data("g")] + pm.Normal("b") * rows.data("x")
        pm.Bernoulli("y", logit_p=eta, observed=rows.data("y"))
    return model


def files_open(folder):
    """Return the files of a folder that are open once all is collected that nobody holds."""
    gc.collect()
    named = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    opened = [os.readlink(link) for link in named if link.is_symlink()]
    mapped = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in [*opened, *mapped] if str(folder) in line]


@pytest.fixture
def threads_ended():
    """Wait for the threads of steps of the test, not for those of other tests' steps.

    A test that other tests of the process leave steps to would wait for ever.
    """
    before = {*threading.enumerate()}

    def wait():
        gc.collect()
        for thread in {*threading.enumerate()} - before:
            thread.join(60)
            assert not thread.is_alive(), thread

    return wait


@pytest.mark.parametrize(
    ("stored", "method"),
    fast([(in_memory, TunaMH), (in_files, PenaltyMH), (in_parquet, TunaMH)], [(in_memory, TunaMH)]),
)
def test_rows_are_released_with_model_step_and_trace(stored, method, tmp_path, threads_ended):
    storages = []
    for steps in (1, 0):
        rows = stored(tmp_path)
        storages.append(ref(rows.storage))
        model = model_of(rows)
        model.initial_point()
        for _ in range(steps):
            sample(model, method(model=model), 20, 20, chains=1)
        assert stored is not in_files or files_open(tmp_path)
        del rows, model
        threads_ended()
        assert not files_open(tmp_path)
    assert [storage() for storage in storages] == [None] * 2


def test_every_copy_of_a_model_holds_its_rows_and_none_for_good(tmp_path):
    rows = in_files(tmp_path)
    model = model_of(rows)
    pickled = cloudpickle.loads(cloudpickle.dumps(model))
    copies = [deepcopy(model), pm.do(model, {"b": 1.0}), pickled]
    storages = [ref(rows.storage)]
    del rows, model, pickled
    gc.collect()
    while copies:
        variables = copies[-1].rvs_to_values.values()
        found = {array.name: array for array in stored_arrays([*variables, *copies[-1].basic_RVs])}
        np.testing.assert_array_equal(found["x"].read(slice(3, 9)), ARRAYS["x"][3:9])
        storages.append(ref(found["x"].storage))
        copies.pop().initial_point()
    del variables, found
    gc.collect()
    assert [storage() for storage in storages] == [None] * 4
