"""The same seed gives the same draws in every process, whatever Python's hashes are."""

import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from conformance.harness import run
from families import FAMILIES
from steps.test_prepared import keys
from zoo import METHODS

TESTS = Path(__file__).parents[1]


def digests(families, methods):
    """Return a digest of the draws of each family by each method."""
    found = {}
    for name in families:
        model = FAMILIES[name](2_000)
        for method in (METHODS[name] for name in methods):
            # Rows with kinks have no mode that Newton's method could find.
            order = {"taylor_order": 0} if name == "laplace" else {}
            step = method(model=model, **order)
            step.setup_chain(np.random.default_rng(4), 60, 60)
            draws, _ = run(step, model.initial_point(), 120, stop_at=60)
            found[f"{name}, {method.__name__}"] = sha256(draws.tobytes()).hexdigest()
    return found


def in_another_process(families, methods, folder):
    script = (
        "import json, warnings; warnings.simplefilter('ignore');"
        "from conformance.test_processes import digests; from steps.test_prepared import keys;"
        f"print(json.dumps([digests({families!r}, {methods!r}), keys()]))"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "2",
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
        # Nothing that another process has compiled.
        "PYTENSOR_FLAGS": f"base_compiledir={folder}",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("families", "methods"),
    [
        pytest.param(["normal_mixture"], ["TunaMH"], id="mixture"),
        pytest.param(list(FAMILIES), ["TunaMH", "PenaltyMH"], id="all", marks=pytest.mark.slow),
    ],
)
def test_draws_and_keys_of_files_do_not_depend_on_the_process(families, methods, tmp_path):
    here = digests(families, methods)
    assert in_another_process(families, methods, tmp_path) == [here, keys()]
    assert len({*here.values()}) == len(here)
