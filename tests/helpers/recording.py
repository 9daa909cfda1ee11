"""Figures that slow tests measure, stored where the documentation reads them.

They are written only if the environment variable ``PYMC_MINIBATCH_MH_FIGURES`` is 1, so that a
run of the tests leaves the stored ones alone.
"""

import json
import os
from pathlib import Path

VARIABLE = "PYMC_MINIBATCH_MH_FIGURES"


def record(folder, name, *, asked, measured, seed):
    """Store a figure in ``figures.json`` of a folder of tests.

    Parameters
    ----------
    folder
        Name of the folder.
    name
        Name of the figure; an older one of that name is replaced.
    asked, measured
        What is required, and what was found.
    seed
        What the random numbers came from.
    """
    if os.environ.get(VARIABLE) != "1":
        return
    file = Path(__file__).parents[1] / folder / "figures.json"
    figures = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    command = f"{VARIABLE}=1 pytest -m slow tests/{folder}"
    figures[name] = {"asked": asked, "measured": measured, "command": command, "seed": seed}
    text = json.dumps(dict(sorted(figures.items())), indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")
