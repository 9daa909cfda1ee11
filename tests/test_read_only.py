"""An installation that nobody can write to, in a home that nobody can write to.

Permissions do not bind an administrator, files where a folder is needed do.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pymc_minibatch_mh

INSTALLED = Path(pymc_minibatch_mh.__file__).parent
#: Compiles a function on its call, and others, of another folder, when their module is imported.
COMPILE = """
from pymc_minibatch_mh.kernels.vectors import shifted
import numpy as np
from pymc_minibatch_mh.data import arrays
half = np.array([0.5])
print(shifted(half, half, 1.0)[0], arrays.read_number(half.ctypes.data, arrays._F8))
"""
BUILD = """
import pymc as pm
from pymc_minibatch_mh import TunaMH
with pm.Model():
    pm.Normal("mu")
    TunaMH()
"""
SOURCES = shutil.ignore_patterns("__pycache__")


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory):
    """A folder with a copy of the package that can keep nothing beside its sources."""
    folder = tmp_path_factory.mktemp("site-packages")
    shutil.copytree(INSTALLED, folder / INSTALLED.name, ignore=SOURCES)
    for inside in [path.parent for path in folder.rglob("*.py")]:
        (inside / "__pycache__").touch()
    return folder


def run(code, path, **variables):
    """Run code on the package that lies in a folder, in a new process whose home is no folder."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "PYTENSOR", "XDG"))}
    env = kept | {"HOME": os.path.join(os.devnull, "home")} | variables
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, cwd=path, capture_output=True, text=True)


def test_functions_are_compiled_anew_where_nothing_can_be_kept(site_packages):
    """And a step says which folder PyTensor lacks, as it can do nothing without."""
    done = run(COMPILE + BUILD, site_packages)
    assert done.stdout == "1.0 0.5\n"
    assert done.stderr.count("Numba has no folder for compiled functions") == 1
    assert done.stderr.count("Set the environment variable NUMBA_CACHE_DIR") == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith("pymc_minibatch_mh.errors.MinibatchError: PyTensor cannot write to")
    assert "set the environment variable PYTENSOR_FLAGS='base_compiledir=FOLDER'" in message


def test_the_folder_that_the_log_asks_for_is_used(site_packages, tmp_path):
    done = run(COMPILE, site_packages, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    kept = {path.name.split(".")[0] for path in tmp_path.rglob("*.nbi")}
    assert kept >= {"vectors", "arrays"}
