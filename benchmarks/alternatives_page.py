"""The table of docs/howto/alternatives.md, from stored results of ``alternatives.py``.

``PYTHONPATH=.:tests:examples python -m benchmarks.alternatives_page`` writes it.
"""

import json
from pathlib import Path

from papers.page import made, number, table

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "alternatives.json", HERE.parent / "docs" / "howto" / "alternatives.md"
MODELS = {
    "common": "7 coefficients",
    "rare": "5 coefficients, one of a rare category",
    "groups": "12 groups, unknown scale",
}
METHODS = ("Laplace", "Pathfinder", "ADVI", "TunaMH")
HEAD = ["model", "method", "mean off by, sds", "ratio of sds", "beyond an end, %", "CPU s"]


def worst(unknowns):
    """Return the largest error of a mean, and the ranges of ratios of sds and of tails."""
    entries = unknowns.values()
    ratios = sorted(each["sd"] for each in entries)
    tails = sorted(100.0 * each[side] for each in entries for side in ("below", "above"))
    mean = max(abs(each["mean"]) for each in entries)
    return (
        f"{mean:.2f}",
        f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
        f"{tails[0]:.1f} to {tails[-1]:.1f}",
    )


def rows(results):
    """Return the lines of the table."""
    return [
        [
            MODELS[model],
            f"`{method}`" if method == "TunaMH" else method,
            *worst(found["unknowns"]),
            number(found["cpu_seconds"]),
        ]
        for model in MODELS
        for method in METHODS
        if (found := results[model]["methods"].get(method))
    ]


def written():
    """Return the page: its own words, the table, and how its figures were made."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    text = PAGE.read_text(encoding="utf-8")
    runs = "\n".join(f"- {made(results[model]['run'])}" for model in MODELS) + "\n"
    for name, block in (("errors", table(HEAD, rows(results))), ("runs", runs)):
        before, found, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert found, name
        assert end, name
        text = before + found + block + end + after
    return text


def main():
    """Write the page."""
    PAGE.write_text(written(), encoding="utf-8")


if __name__ == "__main__":
    main()
