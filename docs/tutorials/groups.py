"""Make the file beside the tutorial on groups: a run of NUTS.

Run ``PYTHONPATH=. python docs/tutorials/groups.py`` in the root of the repository. The model is
the code of the page itself; nutpie samples it.
"""

import os
import re
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm

FOLDER = Path(__file__).parent
#: The first cells of the page, which read the data and build the model.
CELLS = 2
#: Variables of which means and standard deviations are stored.
STORED = ("level", "wave", "spread", "plane_effect", "goal_effect")


def store_nuts() -> None:
    """Run the first cells of the page, and store means and sds of their model by NUTS."""
    os.chdir(FOLDER)
    cells = re.findall(r"```\{code-cell\} python\n(.*?)```", Path("groups.md").read_text(), re.S)
    page: dict[str, object] = {}
    exec("".join(cells[:CELLS]), page)  # noqa: S102 - the page beside this file
    trace = pm.sample(
        600, tune=400, chains=2, nuts_sampler="nutpie", random_seed=1, progressbar=False,
        model=page["model"],
    )  # fmt: skip
    ess = az.ess(trace)
    found = {"smallest_ess": np.array(min(float(ess[name].min()) for name in STORED))}
    for name in STORED:
        draws = trace.posterior[name]
        found[f"{name}_mean"] = draws.mean(("chain", "draw")).to_numpy().astype(np.float32)
        found[f"{name}_sd"] = draws.std(("chain", "draw")).to_numpy().astype(np.float32)
    np.savez_compressed("groups_nuts.npz", **found)


if __name__ == "__main__":
    store_nuts()
