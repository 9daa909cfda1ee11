"""Make the file beside the tutorial on small groups: a run of PyMC's NUTS.

Run ``PYTHONPATH=. python docs/tutorials/small_groups.py`` in the root of the repository. The model
is the code of the page itself.
"""

import os
import re
import time
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm

FOLDER = Path(__file__).parent
#: The first cells of the page, which read the data and build the model.
CELLS = 2
#: Variables of which means and standard deviations are stored.
STORED = ("level", "wave", "scale", "effect")


def store_nuts() -> None:
    """Run the first cells of the page, and store means and sds of their model by NUTS."""
    os.chdir(FOLDER)
    text = Path("small_groups.md").read_text(encoding="utf-8")
    page: dict[str, object] = {}
    for cell in re.findall(r"```\{code-cell\} python\n(.*?)```", text, re.S)[:CELLS]:
        exec(cell, page)  # noqa: S102 - the page beside this file
    began = time.process_time()
    trace = pm.sample(
        1_000, tune=1_000, chains=2, cores=1, nuts_sampler="pymc", random_seed=1,
        progressbar=False, model=page["model"],
    )  # fmt: skip
    seconds, ess = time.process_time() - began, az.ess(trace)
    found = {
        "cpu_seconds": np.array(seconds),
        "smallest_ess": np.array(min(float(ess[name].min()) for name in STORED)),
    }
    for name in STORED:
        draws = trace.posterior[name]
        found[f"{name}_mean"] = draws.mean(("chain", "draw")).to_numpy().astype(np.float32)
        found[f"{name}_sd"] = draws.std(("chain", "draw")).to_numpy().astype(np.float32)
    np.savez_compressed("small_groups_nuts.npz", **found)


if __name__ == "__main__":
    store_nuts()
