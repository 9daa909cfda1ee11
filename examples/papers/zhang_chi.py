"""Zhang, Cooper and De Sa (2020), section 5: how to choose χ.

The paper takes about the largest χ at which χC²M² < 1 in most steps. Here, on the regression of
section 5.3, that rule is measured beside other values, the published ones and ``chi="auto"``: by
rows and by time for an effective draw. First with the published isotropic walks and bounds without
control variates, over lengths of the walk, of which each χ is given its best; then with TunaMH as
it is by default, apart from χ.

"Most steps" are taken for nine of ten: χ = 1/q², where q is the quantile of 90 % of the rows that
χ = 0 reads, whose expectation is CM.

Appendix G derives an optimal χ from the relaxation time and the expected cost of a step, and the
paper finds the rule generally better. The appendix was not at hand; its χ is computed from the
same two, by equation 2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pymc as pm

from papers.data import sevens_and_nines
from papers.report import Cell, Claim, Panel, Report, Table, curve
from papers.runner import Run, Size, main, trials
from papers.zhang_logistic import least_updates, regression, seconds_per_update, walk
from pymc_minibatch_mh import TunaMH, TunaPaperMH
from pymc_minibatch_mh.steps.tuna import chi_for_gap

WALKS = (5e-4, 1e-3, 1.5e-3, 2.5e-3, 4e-3)
PUBLISHED = (1e-5, 1e-4, 5e-4)
RULE, DERIVED, AUTO = "χC²M² < 1", "derived (appendix G)", 'chi="auto"'
#: Values of χ for control variates of order 2, beside the rule's.
OTHERS = (1e-4, 3e-4, 1e-3)


@dataclass(frozen=True)
class Cost:
    """A run, and what an effective draw of the slowest weight cost: rows, seconds of one core."""

    run: Run
    rows: float
    seconds: float


def cost_of(run: Run, updates: float) -> Cost:
    """Return the cost of a run with so many updates for an effective draw."""
    return Cost(run, run.rows_per_update[0] * updates, seconds_per_update(run) * updates)


def by_rule(run: Run) -> float:
    """Return the χ of the paper's rule from a run with χ = 0."""
    return float(1.0 / np.quantile(run.rows, 0.9) ** 2)


def derived(size: float) -> float:
    """Return the χ with the fewest rows in a relaxation time, for moves of CM = `size`.

    Equation 2 gives the χ that keeps a share κ of the spectral gap: the relaxation time is at most
    1/κ times that of Metropolis-Hastings, and a step reads CM + χ(CM)² rows.
    """
    shares = np.linspace(0.01, 0.99, 99)
    chis = np.array([chi_for_gap(share) for share in shares])
    return float(chis[np.argmin((size + chis * size**2) / shares)])


def in_turn(values: dict[str, Any], cost: Callable[[Any], Cost], size: Size) -> dict[str, Cost]:
    """Return the cost of every χ; its seconds are the median of runs that take turns."""
    rounds = [{name: cost(chi) for name, chi in values.items()} for _ in range(size.of(1, 1, 5))]
    seconds = {name: np.median([costs[name].seconds for costs in rounds]) for name in values}
    return {name: replace(one, seconds=float(seconds[name])) for name, one in rounds[0].items()}


def choices(none: Run, others: Sequence[float]) -> dict[str, Any]:
    """Return the values of χ that are compared, from a run with χ = 0."""
    values = {f"{chi:g}": chi for chi in others}
    return {"0": 0.0, RULE: by_rule(none), **values, AUTO: "auto"}


def walks(
    model: pm.Model, rows: int, reference: Run, size: Size, seed: int
) -> dict[str, dict[float, Cost]]:
    """Measure every χ with every walk, without control variates."""
    starts = [{"beta": chain[-1]} for chain in reference.values("beta")]
    spread = reference.values("beta").var(axis=(0, 1))
    # A step whose batch would be larger than the data reads all rows, as footnote 3 says.
    shared: dict[str, Any] = {"model": model, "centre": "start", "full_pass_above": rows}

    def cost(chi: Any, scale: float) -> Cost:
        draws, tune = size.of(100, 1_000, 3_000), size.of(100, 500, 500) * (chi == "auto")
        step = TunaPaperMH(chi=chi, proposal=walk(scale), **shared)
        run = trials(step, draws, starts=starts, tune=tune, seed=seed)
        return cost_of(run, least_updates(run, spread))

    found: dict[str, dict[float, Cost]] = {}
    for scale in WALKS[: size.of(1, 5, 5)]:
        none = cost(0.0, scale).run
        values = choices(none, PUBLISHED) | {DERIVED: derived(none.rows_per_update[0])}
        costs = in_turn(values, partial(cost, scale=scale), size)
        for name, one in costs.items():
            found.setdefault(name, {})[scale] = one
    return found


def by_default(model: pm.Model, size: Size, seed: int) -> dict[str, Cost]:
    """Measure χ with control variates and moves as they are by default."""

    def cost(chi: Any) -> Cost:
        draws, tune = size.of(200, 1_000, 8_000), size.of(100, 500, 1_000)
        run = trials(TunaMH(model=model, chi=chi), draws, chains=2, tune=tune, seed=seed)
        return cost_of(run, run.rows.size / run.ess("beta"))

    return in_turn(choices(cost(0.0).run, OTHERS), cost, size)


def experiment(size: Size, seed: int) -> Report:
    """Measure all χ with the published walks, and with ours."""
    digits = sevens_and_nines()
    model = regression(digits)
    ours = by_default(model, size, seed)
    plain = walks(model, digits.y.size, ours["0"].run, size, seed)
    scales = {name: min(costs, key=lambda s: costs[s].rows) for name, costs in plain.items()}
    best = {name: plain[name][scale] for name, scale in scales.items()}
    return Report(
        "Zhang, Cooper and De Sa (2020), section 5: the choice of χ",
        claims(ours, best),
        [
            table("Published walks and bounds, each χ with its best walk", best, scales),
            table("TunaMH() with other χ: order 2, proposals by default", ours, {}),
        ],
        panels(plain, ours),
        [
            *digits.differences,
            f"The derived χ is {derived(best['0'].run.rows_per_update[0]):.2g}",
            "Where a batch would be larger than the data, all rows decide",
        ],
    )


def claims(ours: dict[str, Cost], best: dict[str, Cost]) -> list[Claim]:
    """Return what must come out: the derived χ loses to the rule, which loses to "auto" in time."""
    ratio = best[DERIVED].rows / best[RULE].rows
    name = "rows an effective draw with the derived χ, relative to the paper's rule"
    result = [Claim(name, "> 1", 1.0, None, ratio)]
    for what, costs in (("published walks", best), ("TunaMH() with other χ", ours)):
        ratio = costs[AUTO].seconds / costs[RULE].seconds
        name = f"{what}: seconds an effective draw at {AUTO}, relative to the paper's rule"
        result.append(Claim(name, "-", None, 1.0, ratio))
    published = min(best[f"{chi:g}"].rows for chi in PUBLISHED)
    ratio = published / ours[AUTO].rows
    name = "rows an effective draw, those of the best published χ and walk (at least) in TunaMH()'s"
    return [*result, Claim(name, "-", 1_000.0, None, ratio)]


def table(caption: str, costs: dict[str, Cost], scales: dict[str, float]) -> Table:
    """Return what an effective draw costs with every χ."""
    size = costs["0"].run.rows_per_update[0]
    lines: list[list[Cell]] = []
    for name, cost in costs.items():
        run = cost.run
        # R = CM (1 + χ CM) tells a χ that was chosen in warm-up, for moves of the same size,
        # unless all rows decide.
        same = name != DERIVED and scales.get(name) == scales.get("0")
        chi = (run.rows_per_update[0] / size - 1.0) / size if same else None
        line = [name, chi, scales.get(name), run.rows_per_update, run.acceptance]
        lines.append([*line, cost.rows, cost.seconds])
    head = ["χ", "from its rows", "walk", "rows an update", "acceptance"]
    head += ["rows an effective draw", "seconds of one core an effective draw"]
    return Table(caption, head, lines)


def panels(plain: dict[str, dict[float, Cost]], ours: dict[str, Cost]) -> list[Panel]:
    """Return rows and seconds of an effective draw against the walk."""
    found = []
    for place, what in (("rows", "rows"), ("seconds", "seconds of one core")):
        curves = [
            curve(name, list(costs), [float(getattr(cost, place)) for cost in costs.values()])
            for name, costs in plain.items()
        ]
        level = [float(getattr(ours[AUTO], place))] * 2
        curves.append(curve("TunaMH()", [WALKS[0], WALKS[-1]], level, "dashed"))
        title = f"χ: {what} of an effective draw, at least"
        found.append(Panel(title, "sd of the walk", what, curves, True, True))
    return found


if __name__ == "__main__":
    main(experiment)
