"""The same seed gives the same draws in every process, whatever Python's hashes are."""

from hashlib import sha256

import numpy as np
import pytest

from helpers.another_process import printed
from helpers.models import FAMILIES
from helpers.zoo import METHODS
from robustness.conformance.harness import run
from steps.test_prepared import keys


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
        "import json; from robustness.conformance.test_processes import digests;"
        "from steps.test_prepared import keys;"
        f"print(json.dumps([digests({families!r}, {methods!r}), keys()]))"
    )
    # Nothing that another process has compiled.
    flags = f"base_compiledir={folder}"
    return printed("-c", script, PYTHONHASHSEED="2", PYTENSOR_FLAGS=flags)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("families", "methods"),
    [
        pytest.param(["zero_inflated_poisson"], ["TunaMH"], id="counts"),
        pytest.param(list(FAMILIES), ["TunaMH", "PenaltyMH"], id="all"),
    ],
)
def test_draws_and_keys_of_files_do_not_depend_on_the_process(families, methods, tmp_path):
    here = digests(families, methods)
    assert in_another_process(families, methods, tmp_path) == [here, keys()]
    assert len({*here.values()}) == len(here)
