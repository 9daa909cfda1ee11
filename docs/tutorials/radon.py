"""Make the files beside the tutorial on radon: its houses, and runs of PyMC's NUTS.

Run ``python docs/tutorials/radon.py [RADON_ALL.JSON]`` in the root of the repository. The data are
``radon_all`` of posteriordb, and stay as they are without that file. The models are the code of
the page itself.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm

FOLDER = Path(__file__).parent
#: The cells of the page that read the data and build a model, and the name of the model.
MODELS = {"radon_nuts.npz": "model", "radon_slopes_nuts.npz": "slopes_model"}
DRAWS = TUNE = 1_000
CHAINS = 4


def store_houses(source: str) -> None:
    """Store the columns that the page reads; radon has one decimal in the survey."""
    found = json.loads(Path(source).read_text(encoding="utf-8"))
    np.savez_compressed(
        FOLDER / "radon.npz",
        county=np.array(found["county_idx"], np.int16) - 1,
        floor=np.array(found["floor_measure"], np.int8),
        radon=np.exp(found["log_radon"]).round(1),
        log_uranium=np.round(found["log_uranium"], 5),
    )


def store_nuts() -> None:
    """Run the cells that build models, and store means, sds and effective draws by NUTS."""
    os.chdir(FOLDER)
    cells = re.findall(r"```\{code-cell\} python\n(.*?)```", Path("radon.md").read_text(), re.S)
    page: dict[str, object] = {}
    # The cell of the second model goes on to sample it.
    building = [cell for cell in cells if "radon.npz" in cell or "pm.Model(" in cell]
    exec("".join(cell.partition("slopes_trace =")[0] for cell in building), page)  # noqa: S102
    for file, name in MODELS.items():
        began = time.process_time()
        trace = pm.sample(
            DRAWS, tune=TUNE, chains=CHAINS, cores=1, nuts_sampler="pymc", random_seed=1,
            progressbar=False, model=page[name],
        )  # fmt: skip
        found = {"cpu_seconds": time.process_time() - began, "draws": CHAINS * DRAWS}
        ess = az.ess(trace)
        for variable, draws in trace.posterior.data_vars.items():
            for key, values in (
                ("mean", draws.mean(("chain", "draw"))),
                ("sd", draws.std(("chain", "draw"))),
                ("ess", ess[variable]),
            ):
                found[f"{variable}_{key}"] = values.to_numpy().astype(np.float32)
        np.savez_compressed(file, **found)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        store_houses(given)
    store_nuts()
