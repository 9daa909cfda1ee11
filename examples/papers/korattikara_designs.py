"""Korattikara et al. (2014), section 6.5: designs of the sequential test for the ICA experiment.

Figure 6: error of the acceptance probability, and rows read, of tests that were chosen for an error
that is tolerated: on average over moves of a chain, in the worst case, and with batches of 600 of
which ε alone is chosen. Tests are chosen on 100 moves and judged on another 100.

Step size, grid and the levels of error are not given in the text. The mixed sources are those of
:mod:`papers.korattikara_ica`, with as many rows as published.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from papers.korattikara_ica import PUBLISHED_ROWS, model_of, recordings, step_of
from papers.report import Claim, Panel, Report, Table, curve
from papers.runner import Array, Size, main
from pymc_minibatch_mh import TriedMoves, design_sequential_test, tried_moves

#: Moves that designs are chosen on, and as many that they are judged on.
MOVES, USUAL_BATCH = 100, 600
BATCHES = (600, 2_000, 6_000, 20_000, 60_000, 200_000)
EPSILONS = tuple(float(f"{e:.2g}") for e in np.geomspace(0.001, 0.5, 13))
TARGETS = (0.02, 0.05, 0.1, 0.15, 0.2)
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
    grid: dict[str, Any] = {"batch_sizes": batches, "epsilons": EPSILONS}
    found: dict[str, list[Judged]] = {AVERAGE: [], WORST: [], USUAL: []}
    for target in TARGETS:
        for kind in (AVERAGE, WORST):
            design = design_sequential_test(chosen_on, target, kind, **grid)
            found[kind].append(judged(others, target, design.batch_size, design.epsilon))
    for epsilon in EPSILONS:
        trained = np.abs(chosen_on.error_and_use_of(batches[0], epsilon).error).mean()
        found[USUAL].append(judged(others, float(trained), batches[0], epsilon))
    return found


def use_at(usual: list[Judged], target: float) -> float:
    """Return the share of the rows that batches of 600 read at an error of the choice."""
    errors, uses = [one.target for one in usual], np.log([one.use for one in usual])
    return float(np.exp(np.interp(target, errors, uses)))


def experiment(size: Size, seed: int) -> Report:
    """Measure moves of a chain, and choose and judge tests on them."""
    rows = PUBLISHED_ROWS // size.of(100, 10, 1)
    batches = tuple(batch for batch in BATCHES if batch <= rows // 9)
    mixed = recordings(rows, seed)
    step = step_of(model_of(mixed), rows, 0.1, batches[0])
    moves = tried_moves(step, size.of(20, 2 * MOVES, 2 * MOVES), random_seed=seed)
    found = designs(moves, batches)
    differences = [
        "synthetic recordings, and a step size of our own: about half of the moves accepted"
    ]
    differences.append("the moves are those of a chain of the test with ε = .1, not of all rows")
    if rows < PUBLISHED_ROWS:
        differences.append(f"{rows:,} rows instead of {PUBLISHED_ROWS:,}")
    return Report(
        "Korattikara et al. (2014), section 6.5: figure 6",
        claims(found),
        [table(found)],
        panels(found),
        differences,
    )


def claims(found: dict[str, list[Judged]]) -> list[Claim]:
    """Return what must come out."""
    ratio = {
        kind: np.array([one.error / one.target for one in found[kind]]) for kind in (AVERAGE, WORST)
    }
    largest = found[AVERAGE][-1]
    used = largest.use / use_at(found[USUAL], largest.target)
    less = max(a.use / w.use for a, w in zip(found[AVERAGE], found[WORST], strict=True))
    return [
        Claim(
            "average design: error on other moves, in the target; median of 5 targets",
            "almost the same",
            0.8,
            1.2,
            float(np.median(ratio[AVERAGE])),
            float(ratio[AVERAGE].std(ddof=1)),
        ),
        Claim(
            "worst-case design: the same",
            "much smaller",
            None,
            0.5,
            float(np.median(ratio[WORST])),
            float(ratio[WORST].std(ddof=1)),
        ),
        Claim(
            "average design: rows in those of the worst-case one, at most",
            "much less",
            None,
            1.0,
            less,
        ),
        Claim(
            f"average design: rows in those of batches of {USUAL_BATCH}, at {TARGETS[-1]}",
            "half",
            0.4,
            0.6,
            used,
        ),
    ]


def table(found: dict[str, list[Judged]]) -> Table:
    """Return the designs."""
    head = ["target", "average: m, ε", "error", "rows", "worst: m, ε", "error", "rows"]
    head.append(f"m = {USUAL_BATCH}: rows")
    lines: list[list[Any]] = []
    for average, worst in zip(found[AVERAGE], found[WORST], strict=True):
        line: list[Any] = [average.target]
        for one in (average, worst):
            line += [f"{one.test[0]:,}, {one.test[1]:g}", (one.error, one.sd), one.use]
        lines.append([*line, use_at(found[USUAL], average.target)])
    caption = "Designs, their error on other moves (± its standard error) and share of the rows"
    return Table(caption, head, lines)


def panels(found: dict[str, list[Judged]]) -> list[Panel]:
    """Return figure 6."""

    def curves(pick: str) -> list[Any]:
        lines = []
        for kind, tests in found.items():
            values: Array = np.array([getattr(one, pick) for one in tests])
            lines.append(curve(kind, [one.target for one in tests], values))
        return lines

    same = curve("equal", TARGETS, TARGETS, "dashed")
    error = Panel(
        "Error on other moves", "target", "mean error", [*curves("error"), same], True, True
    )
    use = Panel("Rows", "target", "share of the rows", curves("use"), True, True)
    return [error, use]


if __name__ == "__main__":
    main(experiment)
