"""Korattikara, Chen and Welling (2014), section 5.1: error of the sequential test.

Figure 1: how often the test decides wrongly by the standardised distance of the mean from its
threshold, by the dynamic programme and in 1,000 tests on the logistic regression of section 6.1;
beside it the share of the rows that it reads. A table has the programme against simulated walks,
and one what it says of the chain's own moves.

The step's own test is what is simulated. A move swaps two positions that a chain of section 6.1
goes between, and its number log q(θ|θ') - log q(θ'|θ) puts the threshold at the distance that is
asked for. At a temperature of 10⁻⁴ the uniform number of the update, which shifts the threshold
by about 1, is nothing beside a log ratio. Batches of 500 rows are those of section 6.1; the level
of figure 1 is not given.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import ndtri

from papers.data import Digits, sevens_and_nines
from papers.designs import tried_moves
from papers.korattikara_risk import BATCH, PUBLISHED, WALK, published_step, regression
from papers.report import Cell, Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Size, main, trials
from papers.sequential import sequential_error, sequential_use
from pymc_minibatch_mh import (
    AustereMH,
    CustomProposal,
    RandomWalk,
    TunaMH,
)

LEVELS = (0.01, 0.05, 0.2)
DISTANCES = np.array([-10.0, -6.0, -3.0, -1.5, -0.75, -0.25, 0.0, 0.5, 1.0, 2.0, 4.0, 8.0])
TEMPERATURE = 1e-4
#: Distances at N = 2,000, m = 100, ε = .05, with figures of another programme for error and use.
CHECKED = {0.0: (0.280, 0.655), 0.5: (0.129, 0.593), 1.5: (0.047, 0.399)}
CHECKED_ROWS, CHECKED_BATCH, CHECKED_LEVEL = 2_000, 100, 0.05


@dataclass(frozen=True)
class Problem:
    """The logistic regression, and positions that its chains are at."""

    digits: Digits
    model: pm.Model
    positions: Array

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.digits.X.shape[0]

    def log_ratio_and_sd(self, prior: Any, here: Array, there: Array) -> tuple[float, float]:
        """Return a tempered move's log ratio, and √N times the standard deviation of its rows."""
        signs = np.where(self.digits.y > 0, 1.0, -1.0)
        here_rows, there_rows = (
            -np.logaddexp(0.0, -signs * (self.digits.X @ beta)) for beta in (here, there)
        )
        change = (there_rows - here_rows) / TEMPERATURE
        ratio = change.sum() + prior({"beta": there}) - prior({"beta": here})
        return float(ratio), float(np.sqrt(change.size) * change.std(ddof=1))


@dataclass(frozen=True)
class Tests:
    """Tests of one level at all distances: what the programme says, and what simulated ones did.

    Parameters
    ----------
    error, use
        The programme's error and share of the rows, shape (distances,).
    wrong
        Share of the tests that were wrong, shape (distances,).
    read
        Share of the rows that each test read, shape (distances, tests).
    """

    error: Array
    use: Array
    wrong: Array
    read: Array

    @property
    def error_gaps(self) -> Array:
        """Distances of simulated errors from the programme's, in standard errors."""
        count = self.read.shape[1]
        # At least that of one wrong test, where none is expected.
        variance = np.maximum(self.error * (1.0 - self.error) / count, 1.0 / count**2)
        return np.asarray((self.wrong - self.error) / np.sqrt(variance))

    @property
    def use_gaps(self) -> Array:
        """Distances of the means of the rows from the programme's, in standard errors."""
        count = self.read.shape[1]
        # At least that of one test with a further batch, where none is expected.
        sd = np.maximum(self.read.std(axis=1, ddof=1), self.read.min() / np.sqrt(count))
        return np.asarray((self.read.mean(axis=1) - self.use) / sd * np.sqrt(count))


def swap(position: Array, new: Array, rng: Any, state: Array, metric: Any, rows: Any) -> float:
    """Go to the other of two positions; the state has both and a number for either direction."""
    d = position.size
    apart = 0.0
    for i in range(d):
        apart += abs(position[i] - state[i])
    at_first = apart == 0.0
    for i in range(d):
        new[i] = state[d + i] if at_first else state[i]
    number: float = state[2 * d] if at_first else state[2 * d + 1]
    return number


def simulated(problem: Problem, level: float, size: Size, seed: int) -> Tests:
    """Run tests of the step at all distances, each on a move of its own."""
    model, rng = problem.model, np.random.default_rng(seed)
    prior = model.compile_logp(vars=model.free_RVs, jacobian=False)
    wrong, read = [], []
    for distance, here in zip(DISTANCES, problem.positions, strict=True):
        there = here + WALK * rng.standard_normal(here.size)
        ratio, sd = problem.log_ratio_and_sd(prior, here, there)
        threshold = distance * sd
        step = AustereMH(
            model=model,
            batch_size=BATCH,
            epsilon=level,
            centre="start",
            temperature=TEMPERATURE,
            full_pass_above=np.inf,
            proposal=CustomProposal(
                swap, state=[*here, *there, threshold - ratio, threshold + ratio]
            ),
        )
        draws = size.of(30, 250, 500)
        run = trials(step, draws, starts=[{"beta": here}] * 2, seed=int(rng.integers(2**30)))
        wrong.append(1.0 - run.acceptance if distance >= 0.0 else run.acceptance)
        read.append(run.rows.ravel() / problem.rows)
    programme = (DISTANCES, BATCH, level, problem.rows)
    error, use = sequential_error(*programme), sequential_use(*programme)
    return Tests(error, use, np.array(wrong), np.array(read))


def walks(distance: float, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Simulate the normal walks that the programme is about; return who erred, and shares read."""
    shares = np.arange(CHECKED_BATCH, CHECKED_ROWS, CHECKED_BATCH) / CHECKED_ROWS
    times = shares / (1.0 - shares)
    noise = rng.standard_normal((count, times.size)) * np.sqrt(np.diff(times, prepend=0.0))
    statistics = (noise.cumsum(axis=1) + distance * times) / np.sqrt(times)
    out = np.abs(statistics) > ndtri(1.0 - CHECKED_LEVEL)
    stops, first = out.any(axis=1), out.argmax(axis=1)
    wrong = stops & (statistics[np.arange(count), first] < 0.0)
    return wrong, np.where(stops, shares[first], 1.0)


def checked(size: Size, seed: int) -> tuple[list[Claim], Table]:
    """Compare the programme with another one's figures and with simulated walks."""
    rng, count = np.random.default_rng(seed), size.of(2_000, 100_000, 1_000_000)
    claims, lines = [], []
    for distance, published in CHECKED.items():
        programme = (distance, CHECKED_BATCH, CHECKED_LEVEL, CHECKED_ROWS)
        ours = float(sequential_error(*programme)), float(sequential_use(*programme))
        # In parts, for memory.
        parts = [walks(distance, count // 10, rng) for _ in range(10)]
        found = [np.concatenate(part) for part in zip(*parts, strict=True)]
        line: list[Cell] = [f"{distance}"]
        for name, value, figure, walked in zip(
            ("error", "use"), ours, published, found, strict=True
        ):
            what = f"N = 2,000, m = 100, ε = 0.05, distance {distance}: {name}"
            # Figures of another programme, and a range that was set after the run.
            claims.append(Claim(what, "-", 0.98 * figure, 1.02 * figure, value, chosen=True))
            error = float(walked.std() / np.sqrt(count))
            claims.append(
                Claim(
                    f"{what}, off simulated walks in standard errors",
                    "-",
                    -3.0,
                    3.0,
                    (value - float(walked.mean())) / error,
                )
            )
            line += [figure, value, float(walked.mean())]
        lines.append(line)
    head = ["distance", "error, another program", "ours", "walks"]
    head += ["use, another program", "ours", "walks"]
    return claims, Table("The program at N = 2,000, m = 100, ε = 0.05", head, lines)


def own_moves(problem: Problem, size: Size, seed: int) -> Table:
    """Compare what chains read with what the programme says of the moves that they try."""
    measured = AustereMH(
        model=problem.model,
        batch_size=BATCH,
        taylor_order=0,
        full_pass_above=np.inf,
        proposal=RandomWalk(WALK, covariance="identity", adapt=False),
    )
    moves = tried_moves(measured, size.of(4, 50, 100), random_seed=seed)
    starts = [{"beta": beta} for beta in problem.positions[: size.of(2, 4, 8)]]
    lines: list[list[Cell]] = []
    for level in list(PUBLISHED)[1:]:
        step = published_step(problem.model, level)
        run = trials(step, size.of(20, 100, 200), starts=starts, seed=seed)
        says = moves.error_and_use_of(BATCH, level)
        lines.append(
            [
                f"{level}",
                problem.rows * float(says.use.mean()),
                mean_sd(run.rows.mean(axis=1)),
                float(np.abs(says.error).mean()),
                float(says.error.mean()),
                float(sequential_error(0.0, BATCH, level, problem.rows)),
            ]
        )
    head = ["ε", "rows a test, by the program", "rows a test, of chains"]
    head += ["mean absolute error of the acceptance probability", "mean error", "worst-case error"]
    return Table("Prediction of the program for the moves that chains propose", head, lines)


def experiment(size: Size, seed: int) -> Report:
    """Simulate tests, and compare them with the programme."""
    digits = sevens_and_nines()
    model = regression(digits)
    near = trials(TunaMH(model=model), 100, chains=2, tune=size.of(50, 300, 300), seed=seed)
    beta = near.values("beta").reshape(-1, digits.X.shape[1])
    places = np.linspace(0, beta.shape[0] - 1, DISTANCES.size).astype(int)
    problem = Problem(digits, model, beta[places])
    found = {level: simulated(problem, level, size, seed) for level in LEVELS}
    claims, table = checked(size, seed)
    for level, tests in found.items():
        for name, gaps in (("error", tests.error_gaps), ("use of rows", tests.use_gaps)):
            what = f"ε = {level}: largest distance of the {name} from the program"
            published, far = "within 3 standard errors", float(np.abs(gaps).max())
            claims.append(Claim(f"{what}, in standard errors", published, None, 3.0, far))
    return Report(
        "Korattikara, Chen and Welling (2014), section 5.1: figure 1",
        claims,
        [table, own_moves(problem, size, seed)],
        drawn(found, problem.rows),
        [*digits.differences, "The paper does not give the ε of figure 1, so three are shown"],
    )


def drawn(found: dict[float, Tests], rows: int) -> list[Panel]:
    """Return figure 1, and the use of the rows."""
    fine = np.linspace(-10.0, 10.0, 161)
    errors, uses = [], []
    for level, tests in found.items():
        programme = (fine, BATCH, level, rows)
        errors.append(curve(f"programme, ε = {level}", fine, sequential_error(*programme)))
        errors.append(curve(f"tests, ε = {level}", DISTANCES, tests.wrong, "points"))
        uses.append(curve(f"programme, ε = {level}", fine, sequential_use(*programme)))
        uses.append(curve(f"tests, ε = {level}", DISTANCES, tests.read.mean(axis=1), "points"))
    distance = "standardised distance from the threshold"
    return [
        Panel("Error of the sequential test", distance, "share of wrong decisions", errors),
        Panel("Rows that it reads", distance, "share of the rows", uses),
    ]


if __name__ == "__main__":
    main(experiment)
