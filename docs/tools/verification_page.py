"""The tables of tests/docs/verification/README.md, from catalogues and stored figures of tests.

``PYTHONPATH=.:tests python -m docs.tools.verification_page`` writes them anew.
"""

import json
import re
from pathlib import Path

from docs.claims.claims import CLAIMS
from docs.tools.inputs_page import ACCEPTED, on_the_page
from docs.tools.inputs_page import PAGE as INPUTS
from docs.tools.tables import markdown
from helpers.models import FAMILIES
from law.exactness import law
from law.statistical.budget import BUDGET, RANDOM
from law.statistical.test_families import QUICK
from law.statistical.test_posteriors import COMMON, MAIN
from mutants import c_sources
from mutants.catalogue import EDITED
from mutants.held import HELD

TESTS = Path(__file__).parents[2] / "tests"
PAGE = TESTS / "docs" / "verification" / "README.md"
#: Links of a page lead elsewhere from another one.
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
#: Section -> figures that its tests store: name -> asked, measured, command, seed.
FIGURES = {
    "endurance": TESTS / "robustness" / "endurance" / "figures.json",
    "calibration": TESTS / "law" / "calibration" / "figures.json",
}


def markers(name):
    """Return what stands before and after a generated table."""
    return f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"


def table(head, rows):
    """Return a table between empty lines."""
    return f"\n{markdown(head, rows)}\n"


def code(text):
    return f"`{text}`"


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def exact():
    head = ["test", "chains", "total variation", "‖πP − π‖₁", "balance", "smallest gap"]
    return table(
        head,
        [
            [
                name,
                row["chains"],
                *(f"{row[key]:.0e}" for key in ("total variation", "drift", "imbalance")),
                f"{row['gap']:.4f}",
            ]
            for name, row in read(law.EXACT_FILE).items()
        ],
    )


def approximate():
    head = ["test", "data", "total variation", "‖πP − π‖₁", "gap"]
    keys = {"total variation": ".2e", "drift": ".2e", "gap": ".3f"}
    rows = [
        [name, data, *(f"{row[key]:{digits}}" for key, digits in keys.items())]
        for name, found in read(law.FILE).items()
        for data, row in found.items()
    ]
    return table(head, rows)


def edited(mutants):
    rows = [
        [m.name, m.breaks, code(m.target), code(m.killer), "slow" if m.slow else "fast"]
        for m in mutants
    ]
    return table(["mutant", "what it breaks", "edited", "test that kills it", "tier"], rows)


def held():
    rows = [[mutant.name, mutant.breaks, code(mutant.test)] for mutant in HELD]
    return table(["mutant", "what it breaks", "test that applies it"], rows)


def models():
    folder, rows = TESTS / "law" / "statistical", []
    for file in ("references.json", "family_references.json"):
        for name, found in read(folder / file)["models"].items():
            ess = min(figures["ess"] for figures in found.values())
            methods = "exact methods" if name in FAMILIES else "all methods"
            tier = "fast" if name in (*QUICK, COMMON) else "slow"
            if name not in FAMILIES and name != COMMON:
                tier = f"fast: {' and '.join(map(code, MAIN))}; slow: the others"
            rows.append([code(name), len(found), f"{ess:,.0f}", methods, tier])
    head = ["model", "coordinates", "effective draws of the reference", "sampled by", "tier"]
    return table(head, rows)


def budget():
    rows = [[code(r.test), r.what, r.comparisons, f"{r.alarm:.1e}"] for r in RANDOM]
    rows.append(
        [
            "all",
            f"at most {BUDGET:.0e}",
            sum(r.comparisons for r in RANDOM),
            f"{sum(r.alarm for r in RANDOM):.1e}",
        ]
    )
    return table(["test", "what is compared", "comparisons", "false alarms"], rows)


def claims(page):
    def described(sentence):
        sentence = LINK.sub(r"\1", sentence)
        if sentence.startswith("|"):
            return " – ".join(cell.strip() for cell in sentence.strip("| ").split(" | "))
        # A bar would end the cell.
        return sentence.replace("|", "\\vert{}")

    rows = [
        [described(sentence), "<br>".join(code(test) for test in tests)]
        for sentence, tests in CLAIMS[page].items()
    ]
    return table(["claim", "tests that would fail without it"], rows)


def bad_input():
    refused = {}
    for name, outcome in on_the_page(INPUTS.read_text(encoding="utf-8")).items():
        refused.setdefault(name.split(": ")[0], []).append(outcome != ACCEPTED)
    rows = [[section, sum(some), len(some) - sum(some)] for section, some in refused.items()]
    rows.append(["all", *(sum(row[k] for row in rows) for k in (1, 2))])
    return table(["cases", "refused", "accepted"], rows)


def figures(path):
    """Return the stored figures of a section, or that there are none."""
    if not path.exists():
        return "\nNo figures are stored.\n\n"
    keys = ("asked", "measured", "command", "seed")
    rows = [
        [name, row["asked"], row["measured"], code(row["command"]), row["seed"]]
        for name, row in read(path).items()
    ]
    return table(["what", *keys], rows)


def tables():
    """Return the generated tables: name -> text."""
    made = {
        "exact": exact(),
        "approximate": approximate(),
        "edited mutants": edited(EDITED),
        "mutants in C": edited(c_sources.catalogue()),
        "held mutants": held(),
        "models": models(),
        "budget": budget(),
        "bad input": bad_input(),
    }
    made |= {f"claims of {page}": claims(page) for page in CLAIMS}
    return made | {name: figures(path) for name, path in FIGURES.items()}


def between(page, name):
    """Return the table that a page has under a name."""
    begin, end = markers(name)
    return page.split(begin)[1].split(end, maxsplit=1)[0]


def main():
    """Write the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    for name, text in tables().items():
        begin, end = markers(name)
        before, rest = page.split(begin)
        page = before + begin + text + end + rest.split(end, maxsplit=1)[1]
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
