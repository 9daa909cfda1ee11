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


def test_a_step_says_which_folder_pytensor_lacks(site_packages):
    """It can do nothing without; the library of the installation is loaded from where it lies."""
    load = "from pymc_minibatch_mh.native.library import load_library\nload_library()\n"
    done = run(load + BUILD, site_packages)
    message = done.stderr.splitlines()[-1]
    assert message.startswith("pymc_minibatch_mh.errors.MinibatchError: PyTensor cannot write to")
    assert "set the environment variable PYTENSOR_FLAGS='base_compiledir=FOLDER'" in message
