"""The table of models that people asked about, from ``benchmarks/public_reports.json``.

``PYTHONPATH=.:tests python -m docs.tools.models_page`` writes it into docs/models.md.
"""

import re
from pathlib import Path

from benchmarks.public_models.catalogue import MODELS
from benchmarks.public_reports import stored
from docs.tools.tables import markdown, significant

PAGE = Path(__file__).parents[1] / "models.md"
MARKED = re.compile(r"(<!-- reports -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = [
    "model", "asked in", "step", "rows", "rows per update", "effective of 6,000 draws",
    "R-hat", "preparation (s)", "seconds to 1,000 effective draws",
]  # fmt: skip
#: Largest R-hat of draws whose effective number is one.
MIXED = 1.05


def seconds_to_enough(result):
    """Return the CPU seconds to 1,000 effective draws, or why they are not reached."""
    if result["rhat"] > MIXED:
        return "chains disagree"
    draws = 1_000.0 / result["ess"]
    return significant(result["setup_seconds"] + draws * result["sampling_seconds"])


def share(result):
    """Return how many rows an update reads, and how many of them all that is."""
    read, rows = result["read_per_update"], result["rows"]
    return f"{significant(read)} ({significant(100.0 * read / rows)} %)"


def line(name, result):
    """Return the cells of a model."""
    report = MODELS[name]
    cells = [f"{report.kind} (`{name}`)", report.source]
    if "refused" in result:
        return [*cells, "none", *["–"] * 6]
    if "ended" in result:
        return [*cells, f"`{result['step']}`", *["–"] * 5, f"above {result['ended']}"]
    return [
        *cells,
        f"`{result['step']}`",
        f"{result['rows']:,}",
        share(result),
        f"{result['ess']:,.0f}",
        f"{result['rhat']:.3f}",
        f"{result['setup_seconds']:.1f}",
        seconds_to_enough(result),
    ]


def outcome(result):
    """Return what became of a step that is not in the table."""
    if "refused" in result:
        seconds, message = result["refused"]
        return f"refused in {seconds:.1f} s: {message}"
    if "ended" in result:
        told = " ".join(result.get("told", []))
        built = (
            f"; said in {result['setup_seconds']:.1f} s, when it was built: {told}" if told else ""
        )
        return f"not done after {result['ended']} s{built}"
    draws = f"{result['ess']:,.0f} effective draws, R-hat {result['rhat']:.3f}"
    return f"{share(result)} rows per update, {draws}"


def others(results):
    """Return a list of what became of the other step, where there are two, and of refusals."""
    lines = [
        f"- `{name}`, by `{step}`: {outcome(figures)}\n"
        for name, result in results.items()
        for step in ("TunaMH", "PenaltyMH")
        for figures in [result.get(step, result if step == result["step"] else {})]
        if step in result or {"refused", "ended"} & figures.keys()
    ]
    return "\n" + "".join(lines) if lines else ""


def filled(page, results):
    """Return a page with its table made anew."""
    rows = [line(name, result) for name, result in results.items()]
    made = markdown(HEAD, rows) + others(results)
    return MARKED.sub(lambda match: match[1] + made + match[2], page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), stored()), encoding="utf-8")
