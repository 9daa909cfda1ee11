"""Small results of some experiments, to show when stored results are stale.

A change of a sampler, of a script or of a seed changes them: then the stored results of the same
script are of another program, and are to be made anew. Figures of time are left out, and made-up
data stand for those that a folder may have.

    cd examples
    python -m uv run python -m papers.recorded
"""

import json
import os
from importlib import import_module
from pathlib import Path

from papers.data import FOLDER
from papers.runner import Size, measured

FILE = Path(__file__).parent / "results" / "small" / "recorded.json"
SCRIPTS = (
    "korattikara_bound",
    "korattikara_ica",
    "korattikara_risk",
    "korattikara_selection",
    "seita_mixture",
    "seita_start",
    "zhang_slopes",
)
TIMED = "second", "in the time"


def small(script: str) -> dict[str, float]:
    """Return the figures of an experiment at its smallest size, by what they are."""
    os.environ.pop(FOLDER, None)
    report = measured(import_module(f"papers.{script}").experiment, Size.SMOKE, 1)
    return {
        claim.what: claim.measured
        for claim in report.claims
        if not any(word in claim.what for word in TIMED)
    }


def main() -> None:
    """Write the small results anew."""
    FILE.parent.mkdir(exist_ok=True)
    found = {script: small(script) for script in SCRIPTS}
    FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
