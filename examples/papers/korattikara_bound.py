"""Korattikara et al. (2014), theorem 1, and Seita et al. (2017), lemma 5: bounds of the bias.

Both say that the stationary distribution of a chain whose acceptance probabilities err by at most
Δ_max lies within Δ_max/(1 - η) of the posterior in total variation, where one step of the exact
chain brings any two distributions closer by a factor η. Here the posterior is that of a normal
mean, on a grid, so that Δ_max, η and both stationary distributions can be computed.

The acceptance error of Barker's test on b rows is bounded by corollary 1 of Seita et al.,
(6.4 E|X|³ + 2 E|X|)/√b for standardised differences X of rows.
"""

import math

import numpy as np

from papers.designs import TriedMoves
from papers.report import Cell, Claim, Panel, Report, Table, curve
from papers.runner import Array, Size, main
from papers.sequential import sequential_error

#: Posterior standard deviations that the grid reaches, and its states.
REACH, STATES = 4.0, 81
ROWS, BATCH = 8_000, 500
EPSILONS = (0.01, 0.05, 0.1, 0.2)
#: Batches of Barker's test in the paper's tables 1 and 2, and larger ones.
BATCHES = {
    "table 2, MNIST": 125.4,
    "table 1, mixture": 182.3,
    "table 2, larger data": 216.5,
    "corollary 1 at .05": 56_000.0,
}
#: E|X| and E|X|³ of a standard normal variable.
FIRST, THIRD = math.sqrt(2.0 / math.pi), 2.0 * math.sqrt(2.0 / math.pi)


def corollary_1(rows: float, first: float = FIRST) -> float:
    """Return the bound of the acceptance error of Barker's test, for normal differences of rows."""
    return (6.4 * THIRD + 2.0 * first) / math.sqrt(rows)


def moves(states: Array) -> tuple[Array, Array]:
    """Return log ratios of all moves between states, and √N times the deviation of their rows."""
    log_ratio = 0.5 * (states[:, None] ** 2 - states**2)
    return log_ratio, np.abs(states[:, None] - states)


def kernel(acceptance: Array, states: Array) -> Array:
    """Return the transition matrix of a normal walk of one deviation on the grid."""
    width = states[1] - states[0]
    walk = np.exp(-0.5 * (states[:, None] - states) ** 2) * width / math.sqrt(2.0 * math.pi)
    matrix = walk * acceptance
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return np.asarray(matrix)


def stationary(matrix: Array) -> Array:
    """Return the stationary distribution."""
    size = len(matrix)
    system = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    return np.asarray(np.linalg.lstsq(system, np.eye(size + 1)[-1], rcond=None)[0])


def contraction(matrix: Array) -> float:
    """Return η of a step: the largest total variation between its distributions."""
    return max(float(0.5 * np.abs(matrix - line).sum(axis=1).max()) for line in matrix)


def sequential_acceptance(states: Array, epsilon: float, exact: Array) -> Array:
    """Return acceptance probabilities of the sequential test for all moves."""
    log_ratio, sd = moves(states)
    apart = sd > 0.0
    found = TriedMoves(ROWS, log_ratio[apart], sd[apart]).error_and_use_of(BATCH, epsilon)
    acceptance = exact.copy()
    acceptance[apart] += found.error
    return acceptance


def experiment(size: Size, seed: int) -> Report:
    """Compute the bounds, and the distances that they are of."""
    states = np.linspace(-REACH, REACH, size.of(21, STATES, STATES))
    exact = np.exp(np.minimum(moves(states)[0], 0.0))
    matrix = kernel(exact, states)
    posterior, eta = stationary(matrix), contraction(matrix)
    lines: list[list[Cell]] = []
    ratios, found = [], []
    for epsilon in EPSILONS:
        acceptance = sequential_acceptance(states, epsilon, exact)
        largest = float(np.abs(acceptance - exact).max())
        law = stationary(kernel(acceptance, states))
        distance = 0.5 * float(np.abs(law - posterior).sum())
        bound = largest / (1.0 - eta)
        worst = float(sequential_error(0.0, BATCH, epsilon, ROWS))
        lines.append([f"{epsilon}", worst, largest, eta, bound, distance])
        ratios.append(distance / bound)
        found.append((bound, distance, law))
    return Report(
        "Korattikara et al. (2014), theorem 1; Seita et al. (2017), corollary 1 and lemma 5",
        claims(ratios),
        [sequential_table(lines), barker_table(states)],
        drawn(states, posterior, found),
        ["Neither paper has figures of these bounds"],
    )


def claims(ratios: list[float]) -> list[Claim]:
    """Return what the theorem says."""
    what = "theorem 1: distance of the stationary distribution, in its bound; largest of all ε"
    return [Claim(what, "at most 1", None, 1.0, max(ratios))]


def sequential_table(lines: list[list[Cell]]) -> Table:
    """Return theorem 1 for the sequential test."""
    head = ["ε", "error of a decision at the threshold", "Δ_max of the acceptance probability"]
    head += ["η of one step", "bound Δ_max/(1 - η)", "total variation of the stationary law"]
    caption = f"Theorem 1 for a normal mean, N = {ROWS:,}, looks of {BATCH} rows"
    return Table(caption, head, lines)


def barker_table(states: Array) -> Table:
    """Return lemma 5 for Barker's test: a bound from 1 on says nothing."""
    barker = kernel(1.0 / (1.0 + np.exp(-moves(states)[0])), states)
    eta = contraction(barker)
    lines: list[list[Cell]] = [
        [name, rows, corollary_1(rows), corollary_1(rows, 1.0), corollary_1(rows) / (1.0 - eta)]
        for name, rows in BATCHES.items()
    ]
    head = ["batch", "rows", "corollary 1, normal differences", "with E|X| = 1"]
    head.append(f"lemma 5, η = {eta:.3f}")
    return Table("Bounds for Barker's test; total variation is never above 1", head, lines)


def drawn(states: Array, posterior: Array, found: list[tuple[float, float, Array]]) -> list[Panel]:
    """Return stationary distributions, and their distances beside the bounds."""
    laws = [curve("posterior", states, posterior, "dashed")]
    laws += [
        curve(f"ε = {epsilon:g}", states, law)
        for epsilon, (*_, law) in zip(EPSILONS, found, strict=True)
    ]
    bounds = [
        curve("theorem 1", EPSILONS, [bound for bound, *_ in found]),
        curve("total variation", EPSILONS, [distance for _, distance, _ in found]),
        curve("nothing said", [EPSILONS[0], EPSILONS[-1]], [1.0, 1.0], "dashed"),
    ]
    unit = "posterior standard deviations"
    return [
        Panel("Stationary distributions of the sequential test", unit, "probability", laws),
        Panel("Bound and distance", "ε", "total variation", bounds, log_x=True, log_y=True),
    ]


if __name__ == "__main__":
    main(experiment)
