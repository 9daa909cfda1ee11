"""What is said where numba's compiler is turned off."""

import os
import subprocess
import sys

import pytest
from numba.core import config

from pymc_minibatch_mh import MinibatchError, _jit


def doubled(x):
    return x + x


def test_a_compiler_that_is_turned_off_is_named(monkeypatch):
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with pytest.raises(MinibatchError, match="NUMBA_DISABLE_JIT turns numba's compiler off"):
        _jit.compile_by_numba()(doubled)


def test_nothing_else_is_said_of_a_compiler_that_is_turned_off():
    code = "import pymc_minibatch_mh as mb\nmb.TunaMH"
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    message = done.stderr.splitlines()[-1]
    assert message.startswith("pymc_minibatch_mh.errors.MinibatchError: NUMBA_DISABLE_JIT")
    assert message.endswith("Unset that environment variable, and start Python anew.")
