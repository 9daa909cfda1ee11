"""Write the tables of the map in the documentation: kinds of models, and what to expect.

    cd examples
    python -m uv run python -m real_data.kinds

Figures come from ``results/``, and from the table of the page on thousands of effects.
"""

from pathlib import Path

from papers.page import table
from real_data.page import CONVERGED, DOCS, Result, least_ess, number, stored

FILE = DOCS / "howto" / "map.md"
GROUPS = DOCS / "howto" / "groups.md"
#: Effective draws that the seconds are for.
DRAWS = 1_000
#: Kind of model, model of the gallery, and recipe.
KINDS = (
    ("Logistic regression", "mothers_at_work", "survey-weights"),
    ("Counts out of a total (binomial)", "graduates_at_work", ""),
    ("Counts, overdispersed", "doctor_visits", "counts-with-many-zeros"),
    ("Counts with an exposure, intercepts by group", "county_murders", "offsets"),
    ("Logistic regression, intercepts by group", "veterans_homes", "slopes-by-group"),
    ("Heavy tails, intercepts and slopes by group", "wages_by_state", "slopes-by-group"),
    ("Robust regression", "minutes_in_the_air", "robust-regression"),
    ("Quantile regression", "longest_delays", ""),
    ("Censored response (Tobit)", "hours_of_mothers", "survival-with-censoring"),
    ("Survival, censored rows in a potential", "back_in_new_york", "survival-with-censoring"),
    ("Ordered categories", "happiness", "ordered-categories"),
    ("Unordered categories (softmax)", "employment", ""),
    ("Splines, smooth curves", "late_by_season", "splines"),
    ("Mixtures", "wages_with_outliers", ""),
)
#: Kind of model, and the beginning of its line on the page on thousands of effects.
MANY = (
    ("Crossed effects, thousands", "325,724 flights"),
    ("Effects of 10,000 groups", "10⁶ observations, 10,000 groups"),
    ("Correlated intercepts and slopes", "200,000 observations, 300 correlated"),
    ("Random walk over time, as effects", "100,000 observations, random walk"),
    ("Areas on a map (CAR)", "100,000 observations of 324 areas"),
)
TO_DRAWS = "s to 1,000 ESS"
HEAD = ["model", "observations a draw", f"`TunaMH`, {TO_DRAWS}", f"NUTS, {TO_DRAWS}", "recipe"]


def seconds(prepared: float, sampling: float, ess: float) -> float:
    """Return the seconds to effective draws, from those of a run."""
    return prepared + sampling * DRAWS / ess


def measured(result: Result) -> list[str]:
    """Return observations a draw, and seconds of `TunaMH` and of NUTS."""
    ess, nuts_ess = least_ess(result["tuna"]), least_ess(result["nuts"])
    tuna = seconds(result["prepared"], result["seconds"], ess)
    nuts = seconds(result["nuts_compilation"], result["nuts_seconds"], nuts_ess)
    star = "" if nuts_ess >= CONVERGED else "\\*"
    return [number(result["rows_per_update"]), number(tuna), number(nuts) + star]


def kinds() -> str:
    """Return the table of the models of the gallery."""
    rows = []
    for kind, name, recipe in KINDS:
        link = f"[code](recipes.md#{recipe})" if recipe else ""
        rows.append([f"[{kind}](../gallery/{name}.md)", *measured(stored(name)), link])
    return table(HEAD, rows)


def many() -> str:
    """Return the table of models with many effects, from the page that measures them."""
    lines = GROUPS.read_text(encoding="utf-8").splitlines()
    rows = []
    for kind, begin in MANY:
        line = next(line for line in lines if line.startswith(f"| {begin}"))
        model, _, observations, *_, to_draws = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append([kind, model, observations, to_draws])
    return table(["model", "measured on", *HEAD[1:3]], rows)


def written() -> dict[Path, str]:
    """Return the page by its file: its own words, and both tables between their comments."""
    text = FILE.read_text(encoding="utf-8")
    for name, rows in (("kinds", kinds()), ("many", many())):
        before, found, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert found, name
        assert end, name
        text = before + found + rows + end + after
    return {FILE: text}


def main() -> None:
    """Write the page."""
    for file, text in written().items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
