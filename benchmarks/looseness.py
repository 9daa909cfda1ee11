"""Make ``looseness.json``: how far the bounds of the families are from their least values.

Run ``PYTHONPATH=.:tests python benchmarks/looseness.py`` in the root folder.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.stats import chi2

from bounds.certified import fit, hunt
from helpers.models import FAMILIES
from pymc_minibatch_mh.bounds.bounds_pass import TAILS
from pymc_minibatch_mh.native.bound_tables import TOTAL

FILE = Path(__file__).with_suffix(".json")
COMMAND = "PYTHONPATH=.:tests python benchmarks/looseness.py"
ROWS = 100_000
#: Rows that a test searches, the moves that it tries, and steps that begin with the best of them.
FEW_ROWS, HUNTED = 2_000, {"moves": 10_000, "climbs": 40}
#: Laplace rows have a kink.
ORDERS = dict.fromkeys(FAMILIES, 2) | {"laplace": 0}


def measured(name, rows=ROWS):
    """Return Σc_i of nested regions over that of enclosures without width, and the worst ratio."""
    fitted = fit(name, rows)
    reference = fitted.reference(ORDERS[name])
    tables = fitted.bounds(reference).tables()
    radii, totals = tables.headers[:, 0], tables.headers[:, TOTAL]
    least = fitted.least_total(reference)
    nested = (float(np.sqrt(chi2.isf(tail, fitted.factorization.size))) for tail in TAILS)
    excess = [float(totals[radii >= 0.999999 * radius].min() / least) for radius in nested]
    return {
        "order": ORDERS[name],
        "total": float(totals.min()),
        "small": excess[0],
        "middle": excess[1],
        "large": excess[2],
        "largest_ratio": float(hunt(fitted, reference, tables).max()),
    }


def largest_of_few_rows(name):
    """Return the worst ratio that a test finds; with so few rows regions are wider."""
    fitted = fit(name, FEW_ROWS)
    reference = fitted.reference(ORDERS[name])
    return float(hunt(fitted, reference, fitted.bounds(reference).tables(), **HUNTED).max())


def table(families):
    """Return the figures as lines of text."""
    columns = ("order", "total", "small", "middle", "large", "largest_ratio", "of_few_rows")
    lines = [f"{'family':22s}" + "".join(f"{column:>14s}" for column in columns)]
    for name, row in families.items():
        lines.append(f"{name:22s}" + "".join(f"{row[column]:14.3g}" for column in columns))
    return "\n".join(lines)


if __name__ == "__main__":
    found = {n: measured(n) | {"of_few_rows": largest_of_few_rows(n)} for n in FAMILIES}
    versions = {package: version(package) for package in ("pymc", "pytensor", "numpy", "scipy")}
    content = {"command": COMMAND, "rows": ROWS, "versions": versions, "families": found}
    FILE.write_text(json.dumps(content, indent=1) + "\n")
    print(table(found))
