"""Korattikara et al. (2014), section 6.5: designs of the sequential test for the ICA experiment.

Figure 6: error of the acceptance probability, and rows read, of tests that were chosen for an error
that is tolerated: on average over moves of a chain, in the worst case, and with batches of 600 of
which ε alone is chosen. Tests are chosen on 100 moves and judged on another 100.

Step size, grid and the levels of error are not given in the text; Seita et al. (2017), appendix
C.2.1, say that its batches begin at 50 rows, as the grid here does. The mixed sources are those of
:mod:`papers.korattikara_ica`, with a tenth of the rows published. How much a design saves depends
on the size of the steps, so that small ones are tried as well.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from papers.designs import (
    Grid,
    TriedMoves,
    average_designs,
    best_design,
    tried_moves,
    worst_case_designs,
)
from papers.korattikara_ica import PUBLISHED_ROWS, SCALE, model_of, recordings, step_of
from papers.report import Claim, Panel, Report, Table, curve
from papers.runner import Array, Size, main
from papers.sequential import PUBLISHED_ALL_ROWS_FROM
from papers.stiefel import StiefelWalk

#: Moves that designs are chosen on, and as many that they are judged on.
MOVES, USUAL_BATCH = 100, 600
BATCHES = (50, 100, 200, 300, 400, 500, 600, 2_000, 6_000, 20_000)
#: Sizes of the steps, in those of the experiment on the sources.
STEPS = {"usual steps": 1.0, "small steps": 0.2}
EPSILONS = tuple(float(f"{e:.2g}") for e in np.geomspace(0.001, 0.5, 19))
TARGETS = (0.02, 0.05, 0.1, 0.15, 0.2)
#: Errors at which a batch of 600 decides at its first looks, added after a look at the others.
LARGE = (0.25, 0.3)
AVERAGE, WORST, USUAL = "average", "worst", f"batches of {USUAL_BATCH}"


@dataclass(frozen=True)
class Judged:
    """A test, judged on moves that it was not chosen on.

    Parameters
    ----------
    target
        The error that was asked for; of batches of 600, the one on the moves of the choice.
    error, sd
        Mean absolute error of the acceptance probability on other moves, and its standard error.
    use
        Share of the rows that is read there.
    test
        Batch size and ε.
    """

    target: float
    error: float
    sd: float
    use: float
    test: tuple[int, float]


def judged(moves: TriedMoves, target: float, batch: int, epsilon: float) -> Judged:
    """Judge a test on moves."""
    found = moves.error_and_use_of(batch, epsilon)
    errors = np.abs(found.error)
    sd = float(errors.std(ddof=1) / np.sqrt(errors.size))
    return Judged(target, float(errors.mean()), sd, float(found.use.mean()), (batch, epsilon))


def halves(moves: TriedMoves) -> tuple[TriedMoves, TriedMoves]:
    """Return the moves that tests are chosen on, and later ones that they are judged on."""
    middle = moves.sd.size // 2
    first, second = (
        TriedMoves(moves.n_rows, moves.log_ratio[part], moves.sd[part])
        for part in (slice(None, middle), slice(middle, None))
    )
    return first, second


def designs(moves: TriedMoves, batches: tuple[int, ...]) -> dict[str, list[Judged]]:
    """Choose tests in three ways, and judge them."""
    chosen_on, others = halves(moves)
    grid = Grid(batches, EPSILONS)
    tests = {
        AVERAGE: list(average_designs(chosen_on, grid, PUBLISHED_ALL_ROWS_FROM)),
        WORST: list(worst_case_designs(moves.n_rows, grid, PUBLISHED_ALL_ROWS_FROM)),
    }
    found: dict[str, list[Judged]] = {AVERAGE: [], WORST: [], USUAL: []}
    for target in (*TARGETS, *LARGE):
        for kind, several in tests.items():
            design = best_design(several, target)
            found[kind].append(judged(others, target, design.batch_size, design.epsilon))
    for epsilon in EPSILONS:
        trained = np.abs(chosen_on.error_and_use_of(USUAL_BATCH, epsilon).error).mean()
        found[USUAL].append(judged(others, float(trained), USUAL_BATCH, epsilon))
    return found


def in_usual(found: dict[str, list[Judged]], average: Judged) -> float:
    """Return rows of an average design, in those of batches of 600 with the same error."""
    usual = found[USUAL]
    uses = np.interp(average.error, [one.error for one in usual], np.log([u.use for u in usual]))
    return float(average.use / np.exp(uses))


def experiment(size: Size, seed: int) -> Report:
    """Measure moves of chains, and choose and judge tests on them."""
    rows = PUBLISHED_ROWS // size.of(100, 20, 10)
    batches = tuple(batch for batch in BATCHES if batch <= rows // 9)
    model = model_of(recordings(rows, seed))
    claimed: list[Claim] = []
    tables, drawn = [], []
    for name, factor in STEPS.items():
        walk = StiefelWalk(factor * SCALE / np.sqrt(rows), adapt=False)
        step = step_of(model, rows, 0.1, USUAL_BATCH, proposal=walk)
        moves = tried_moves(step, size.of(20, 2 * MOVES, 2 * MOVES), random_seed=seed)
        found = designs(moves, batches)
        # The figure has one size of steps: others count neither for nor against it.
        claimed += [
            replace(claim, chosen=claim.chosen or factor != 1.0) for claim in claims(name, found)
        ]
        tables.append(table(name, found))
        drawn += panels(name, found)
    differences = [
        "The recordings are synthetic, and the step sizes are ours",
        "The moves are from a chain with ε = .1, not with all rows",
        f"There are {rows:,} rows, not {PUBLISHED_ROWS:,}",
    ]
    source = "Korattikara et al. (2014), section 6.5: figure 6"
    return Report(source, claimed, tables, drawn, differences)


def claims(name: str, found: dict[str, list[Judged]]) -> list[Claim]:
    """Return what must come out."""
    usual = found[AVERAGE][: len(TARGETS)]
    ratio = {
        kind: np.array([one.error / one.target for one in found[kind][: len(TARGETS)]])
        for kind in (AVERAGE, WORST)
    }
    less = max(a.use / w.use for a, w in zip(usual, found[WORST], strict=False))
    return [
        Claim(
            f"{name}, average design: error on other moves, relative to the target; "
            "median of 5 targets",
            "almost the same",
            0.8,
            1.2,
            float(np.median(ratio[AVERAGE])),
            float(ratio[AVERAGE].std(ddof=1)),
        ),
        Claim(
            f"{name}, worst-case design: the same",
            "much smaller",
            None,
            0.5,
            float(np.median(ratio[WORST])),
            float(ratio[WORST].std(ddof=1)),
        ),
        Claim(
            f"{name}, average design: rows, relative to the worst-case one, at most",
            "much less",
            None,
            1.0,
            less,
        ),
        *against_usual(name, found),
    ]


def against_usual(name: str, found: dict[str, list[Judged]]) -> list[Claim]:
    """Return rows of average designs, in those of batches of 600, at large errors."""
    last = len(TARGETS) - 1
    return [
        Claim(
            f"{name}, average design: rows, relative to {USUAL}, target {one.target}",
            "half",
            0.4,
            0.6,
            in_usual(found, one),
            chosen=i > last,
        )
        for i, one in enumerate(found[AVERAGE])
        if i >= last
    ]


def table(name: str, found: dict[str, list[Judged]]) -> Table:
    """Return the designs."""
    head = ["target"]
    for kind in ("average", "worst"):
        head += [f"{kind}: m, ε", "error", "rows"]
    head.append(f"average: rows, relative to {USUAL}")
    lines: list[list[Any]] = []
    for average, worst in zip(found[AVERAGE], found[WORST], strict=True):
        line: list[Any] = [average.target]
        for one in (average, worst):
            test = f"{one.test[0]:,}, {one.test[1]:g}"
            line += [test, (one.error, one.sd), one.use]
        lines.append([*line, in_usual(found, average)])
    caption = (
        f"{name}: designs, their error on other moves (± its standard error) and share of the rows"
    )
    return Table(caption, head, lines)


def panels(name: str, found: dict[str, list[Judged]]) -> list[Panel]:
    """Return figure 6."""

    def curves(pick: str) -> list[Any]:
        lines = []
        for kind, tests in found.items():
            values: Array = np.array([getattr(one, pick) for one in tests])
            lines.append(curve(kind, [one.target for one in tests], values))
        return lines

    targets = (*TARGETS, *LARGE)
    same = curve("equal", targets, targets, "dashed")
    error = Panel(
        f"Error on other moves, {name}",
        "target",
        "mean error",
        [*curves("error"), same],
        True,
        True,
    )
    use = Panel(f"Rows, {name}", "target", "share of the rows", curves("use"), True, True)
    return [error, use]


if __name__ == "__main__":
    main(experiment)
