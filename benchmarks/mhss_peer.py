"""The part of ``mhss.py`` that runs in the environment of PyMHSS.

python mhss_peer.py GIVEN.npz DRAWS WALK
"""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np

#: Lengths of the factorized step's walks in its tables, by order, in standard deviations times √d.
FACTORIZED = {1: 1.0, 2: 2.0}


def main(given: Path, draws: int, walk: float) -> None:
    """Write costs and draws of each step beside the given data."""
    peer = import_module("PyMHSS")
    stored = np.load(given)
    at = {name: stored[name] for name in ("y", "x", "V")} | {"x0": stored["mode"]}
    common = {"nburn": 0, "npost": draws, "model": "poisson", "implementation": "vectorised"}
    found = {}
    for order in (1, 2):
        np.random.seed(order)  # noqa: NPY002 - the generator that PyMHSS draws from
        runs = {
            f"MH-SS-{order}": peer.MH_SS(**at, **common, taylor_order=order, kappa=walk),
            f"SMH-{order}": peer.SMH(**at, **common, taylor_order=order, kappa=FACTORIZED[order]),
        }
        for name, run in runs.items():
            rows = run["BoverN"].mean() * len(at["y"]) * run["acc_rate_ratio1"]
            found[f"{name}/costs"] = rows, run["acc_rate"]
            found[f"{name}/draws"] = run["parameters"]
    np.savez(given.with_name("found.npz"), **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
