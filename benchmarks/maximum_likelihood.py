"""What is used for models with very many effects today: Laplace's approximation, by glmmTMB.

It needs R with the package ``glmmTMB`` (Debian: ``r-cran-glmmtmb``), and takes one thread. Brooks
et al. (2017), doi:10.32614/RJ-2017-066.
"""

import subprocess
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd

SCRIPT = Path(__file__).with_suffix(".R")


class Table(NamedTuple):
    """The rows of a model with effects of groups, and the names of its unknowns.

    `slopes` has shape (N, k), and `groups` the codes of each factor, shape (N,). The variables
    `fixed` are the intercept and the k slopes, in this order; `effects` times the entries of
    `scale` are the effects of the groups.
    """

    family: str
    y: np.ndarray
    slopes: np.ndarray
    groups: tuple[np.ndarray, ...]
    fixed: tuple[str, ...]
    scale: str
    effects: tuple[str, ...]


def missing():
    """Say what is missing to run glmmTMB; empty if nothing is."""
    if which("Rscript") is None:
        return "R is not installed"
    asked = ["Rscript", "-e", "library(glmmTMB)"]
    there = subprocess.run(asked, capture_output=True, check=False).returncode == 0
    return "" if there else "the R package glmmTMB is not installed"


def estimates(table):
    """Return the estimates of glmmTMB: columns kind, level and value, and a row of seconds."""
    columns = {"y": table.y}
    columns |= {f"x{k}": table.slopes[:, k] for k in range(table.slopes.shape[1])}
    columns |= {f"g{k}": codes for k, codes in enumerate(table.groups)}
    with TemporaryDirectory() as folder:
        rows, found = Path(folder, "rows.csv"), Path(folder, "found.csv")
        pd.DataFrame(columns).to_csv(rows, index=False)
        subprocess.run(["Rscript", SCRIPT, rows, table.family, found], check=True)
        return pd.read_csv(found)


def away(table, found, posterior):
    """Return the distances of estimates from posterior means, in standard deviations.

    Scales are compared by their logarithms. The answer has the rows of `found` but the first.
    """
    draws = {name: posterior[name].values[0] for name in posterior.data_vars}
    shaped = {name: x.reshape(len(x), -1) for name, x in draws.items()}
    known = {
        "fixed": np.hstack([shaped[name] for name in table.fixed]),
        "scale": np.log(shaped[table.scale]),
    }
    for k, name in enumerate(table.effects):
        known[f"g{k}"] = shaped[table.scale][:, k, None] * shaped[name]
    distances = []
    for kind, level, value in found.iloc[1:].itertuples(index=False):
        own = known[kind][:, level]
        estimate = np.log(value) if kind == "scale" else value
        distances.append((estimate - own.mean()) / own.std())
    return found.iloc[1:].assign(away=distances)


def told(table, posterior):
    """Return a line on glmmTMB: seconds, and how far its estimates are from the posterior."""
    lacks = missing()
    if lacks:
        return f"  glmmTMB: skipped, as {lacks}"
    found = estimates(table)
    off = away(table, found, posterior)
    words = [
        f"{name} {own['away'].abs().max():.1f}"
        for name, own in off.groupby(off["kind"].where(~off["kind"].str.startswith("g"), "effects"))
    ]
    return f"  glmmTMB: {found['value'].iloc[0]:.1f} s; posterior sds off: {', '.join(words)}"
