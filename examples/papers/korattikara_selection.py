"""Korattikara et al. (2014), section 6.3: variable selection by birth and death.

Figure 4, and the figures of the text: risk in the predictive mean of test rows for levels ε of the
sequential test, and what is selected from one feature and from the mode of all features.

The prior of ``birth_death.py`` integrates the scale of Laplace weights out, which gives a factor
2^-k for k features that the displayed posterior of the paper does not have.

Moves, prior and step sizes are those of the supplement, in ``birth_death.py``. The MiniBooNE data
are not at hand: as many rows of Covertype (spruce and fir, or not) with as many features stand for
them, where the folder that the environment variable ``PYMC_MINIBATCH_MH_DATA`` names has
``covtype.npz``, and made-up rows elsewhere. Other data have another number of features that matter,
so that only orderings can be compared.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from numba import njit
from numpy.typing import NDArray
from scipy.special import expit, logit

from birth_death import BIRTH, PENALTY, UPDATE, birth_death, regression
from papers.data import stored
from papers.parts import Part, part
from papers.report import Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import AustereMH, CustomProposal, TunaMH

ROWS, FEATURES, TRAINING = 130_065, 50, 104_052
EPSILONS = (0.0, 0.01, 0.05, 0.1)
#: The constant feature, and times that a trial evaluates the training rows.
CONSTANT, PASSES = 10.0, 24_583
BATCH, KEPT = 500, 300
ONE, MODE = "one feature", "the mode"
OURS = "TunaMH(), from the mode"


@dataclass(frozen=True)
class Data:
    """Training and test rows: a constant feature and 50 standardised ones, and two classes."""

    X: Array
    y: NDArray[np.int64]
    X_test: Array
    y_test: NDArray[np.int64]
    stand_in: bool


def split(x: Array, y: NDArray[np.bool_], stand_in: bool) -> Data:
    """Standardise features, add a constant one, and split off a fifth for tests."""
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    x = np.column_stack([np.full(len(x), CONSTANT), scaled])
    n = len(x) * TRAINING // ROWS
    classes = y.astype(np.int64)
    return Data(x[:n], classes[:n], x[n:], classes[n:], stand_in)


def data(rows: int) -> Data:
    """Return rows of Covertype in random order, or made-up ones.

    Features are the ten measurements and their squares, three wilderness areas and the 27 soils
    that are most common.
    """
    rng, found = np.random.default_rng(2014), stored("covtype.npz")
    if found is None:
        factors = rng.standard_normal((rows, 12))
        x = factors @ rng.standard_normal((12, FEATURES)) + rng.standard_normal((rows, FEATURES))
        linear = 0.3 * x[:, ::3].sum(axis=1) + 0.5 * factors[:, 0] - 1.0
        return split(x, rng.random(rows) < expit(linear), True)
    chosen = rng.permutation(len(found["X"]))[:rows]
    measured, area, soil, cover = (
        np.asarray(found[name][chosen], float if name == "X" else int)
        for name in ("X", "wilderness", "soil", "cover_type")
    )
    measured = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    common = np.argsort(-np.bincount(soil))[:27]
    kinds = [area[:, None] == [2, 3, 4], soil[:, None] == common]
    return split(np.column_stack([measured, measured**2, *kinds]), cover == 1, False)


def mode_of(given: Data) -> Array:
    """Return the weights of all features at the mode, under a wide normal prior."""
    with pm.Model():
        w = pm.Normal("w", 0.0, 10.0, shape=given.X.shape[1])
        pm.Bernoulli("y", logit_p=given.X @ w, observed=given.y)
        found = pm.find_MAP(progressbar=False, return_inferencedata=True, jitter=False)
    return np.asarray(found.posterior["w"], float).reshape(-1)


def austere(model: pm.Model, epsilon: float, updates_per_draw: int = 1) -> AustereMH:
    """Return the test of a level on the published moves."""
    return AustereMH(
        model=model,
        epsilon=epsilon,
        batch_size=BATCH,
        centre="start",
        full_pass_above=np.inf,
        proposal=CustomProposal(birth_death, state=[UPDATE, BIRTH]),
        updates_per_draw=updates_per_draw,
    )


def late_means(run: Run, X: Array, read: Array) -> Array:
    """Return predictive means of rows X over the later half of draws, by the time of a reading.

    Parameters
    ----------
    run
        Trials.
    X : ndarray, shape (rows, d)
        Test rows.
    read : ndarray, shape (times,)
        Rows that a trial has read.

    Returns
    -------
    ndarray, shape (trials, times, rows)
    """
    found = []
    for weights, rows in zip(run.values("w"), run.rows.cumsum(axis=1), strict=True):
        sums = np.vstack([np.zeros(len(X)), expit(weights @ X.T).cumsum(axis=0)])
        last = np.maximum(np.searchsorted(rows, read, side="right"), 1)
        first = last // 2
        found.append((sums[last] - sums[first]) / (last - first)[:, None])
    return np.array(found)


def settled(draws: Array, given: Data) -> Part:
    """Return features in a draw, test error and predictive means, over the later half of draws."""
    weights = draws[:, draws.shape[1] // 2 :]
    means = np.array([expit(w @ given.X_test.T).mean(axis=0) for w in weights])
    return {
        "features": (weights != 0.0).sum(axis=-1).mean(axis=1),
        "error": ((means > 0.5) != given.y_test).mean(axis=1),
        "means": means.mean(axis=0),
    }


def of_run(run: Run, given: Data, thin: int = 1) -> Part:
    """Return the same of trials, with what one update costs."""
    return {
        **settled(run.values("w"), given),
        "accepted": run.stat("accepted_share").mean(axis=1),
        "rows": run.rows.mean(axis=1) / thin,
        "seconds": run.stat("perf_counter_diff").sum(axis=1),
    }


_move = njit(birth_death)


@njit
def log_prior(w: Array) -> float:
    """Return the log-density of weights: see ``birth_death.regression``."""
    k = np.sum(w != 0.0)
    size = k * math.log(PENALTY) + math.lgamma(k) + math.lgamma(w.size - k + 1.0)
    return size - k * math.log(2.0 * np.sum(np.abs(w)))


@njit
def log_likelihood(predictors: Array, y: Array) -> float:
    """Return the log-likelihood of classes, without overflow."""
    total = 0.0
    for x, label in zip(predictors, y):  # noqa: B905
        total += label * x - max(x, 0.0) - math.log1p(math.exp(-abs(x)))
    return total


@njit(nogil=True)
def exact_chain(
    X: Array, y: Array, w: Array, rng: np.random.Generator, draws: int, thin: int
) -> tuple[Array, float]:
    """Sample with all rows, whose linear predictors are kept: a move changes one of the weights.

    Parameters
    ----------
    X : ndarray, shape (d, rows)
        Features of the training rows.
    y : ndarray, shape (rows,)
        Classes of the training rows.
    w : ndarray, shape (d,)
        Weights at the start.
    rng
        Source of the moves.
    draws
        Number of draws that are kept.
    thin
        Updates from draw to draw.

    Returns
    -------
    ndarray, shape (draws, d)
        Weights.
    float
        Share of updates whose proposal was accepted.
    """
    kept, accepted, settings = np.empty((draws, w.size)), 0, np.array([UPDATE, BIRTH])
    w, new = w.copy(), np.empty_like(w)
    for draw in range(draws):
        # Anew, so that rounding errors do not add up.
        predictors = w @ X
        log_density = log_prior(w) + log_likelihood(predictors, y)
        for _ in range(thin):
            log_ratio = _move(w, new, rng, settings, None, None)
            j = np.argmax(np.abs(new - w))
            moved = predictors + (new[j] - w[j]) * X[j]
            proposed = log_prior(new) + log_likelihood(moved, y)
            if rng.standard_exponential() > log_density - proposed - log_ratio:
                accepted += new[j] != w[j]
                w[:], predictors, log_density = new, moved, proposed
        kept[draw] = w
    return kept, accepted / (draws * thin)


def truth(given: Data, start: Array, draws: int, thin: int, seed: int) -> Part:
    """Run two exact chains from a start, side by side."""
    X, y = np.ascontiguousarray(given.X.T), given.y.astype(float)

    def one(rng: np.random.Generator) -> tuple[Array, float]:
        return exact_chain(X, y, start, rng, draws, thin)

    with ThreadPoolExecutor(2) as pool:
        kept, accepted = zip(*pool.map(one, np.random.default_rng(seed).spawn(2)), strict=True)
    found = settled(np.array(kept), given)
    return {**found, "accepted": np.array(accepted), "rows": np.full(2, float(y.size))}


@dataclass(frozen=True)
class Level:
    """Trials of a level from one feature.

    Parameters
    ----------
    read
        Rows that a trial has read, shape (times,).
    risks
        Squared errors of the predictive mean by then, means over test rows, (trials, times).
    features, error, accepted, rows, seconds
        As of :func:`settled`, shape (trials,), with rows of one update.
    """

    read: Array
    risks: Array
    features: Array
    error: Array
    accepted: Array
    rows: Array
    seconds: Array

    @property
    def risk(self) -> Array:
        """Mean over trials, shape (times,)."""
        return np.asarray(self.risks.mean(axis=0))

    @property
    def risk_error(self) -> Array:
        """Standard error of the risk, shape (times,)."""
        return np.asarray(self.risks.std(axis=0, ddof=1) / np.sqrt(len(self.risks)))


def level(
    epsilon: float, model: pm.Model, given: Data, start: Array, truth: Array, size: Size, seed: int
) -> Level:
    """Run a level from one feature, on a number of rows that all levels have."""
    rows, passes = len(given.X), size.of(20, 60, 200, PASSES)
    starts = [{"w": start}] * 2
    few = size.of(20, 100, 300, 10_000 if epsilon > 0.0 else 300)
    pilot = trials(austere(model, epsilon), few, starts=starts, seed=seed).rows
    # The first updates are far from where the chain will be.
    updates = int(1.05 * passes * rows / pilot[:, pilot.shape[1] // 2 :].mean())
    thin = max(1, updates // KEPT)
    step = austere(model, epsilon, updates_per_draw=thin)
    read = np.geomspace(passes * rows / 100, passes * rows, 30)
    found = []
    for k in range(0, size.of(2, 2, 4, 10), 2):

        def compute(k: int = k) -> Part:
            run = trials(step, updates // thin, starts=starts, seed=seed + 1 + 1_000 * k)
            risks = ((late_means(run, given.X_test, read) - truth) ** 2).mean(axis=2)
            return {**of_run(run, given, thin), "risks": risks}

        found.append(part(f"level-{epsilon}-trials-{k}", compute))
    names = "risks", "features", "error", "accepted", "rows", "seconds"
    return Level(read, **{name: np.concatenate([few[name] for few in found]) for name in names})


def experiment(size: Size, seed: int) -> Report:
    """Select features from two starts with all rows, and with the sequential tests from one."""
    given = data(size.of(5_000, ROWS, ROWS))
    constant = float(logit(given.y.mean())) / CONSTANT
    one = np.where(np.arange(FEATURES + 1) == 0, constant, 0.0)
    mode = mode_of(given)
    model = regression(given.X, given.y, mode)
    draws, thin = size.of(1_000, 10_000, 100_000, 400_000), size.of(10, 100, 100)
    exact = part("exact", lambda: truth(given, mode, draws // thin, thin, seed))
    levels = {
        epsilon: level(epsilon, model, given, one, exact["means"], size, seed + 10 * i)
        for i, epsilon in enumerate(EPSILONS, 1)
    }
    ends: dict[str, Part] = {ONE: vars(levels[0.0]), MODE: exact}
    ours = TunaMH(model=model, proposal=CustomProposal(birth_death, state=[UPDATE, BIRTH]))
    starts = [{"w": mode}] * 2
    run = trials(ours, size.of(50, 100, 300), starts=starts, seed=seed + 90)
    ends[OURS] = of_run(run, given)
    return Report(
        "Korattikara et al. (2014), section 6.3: figure 4",
        claims(ends, levels),
        [ends_table(ends), levels_table(levels)],
        panels(levels),
        differences(given, size, draws),
    )


def differences(given: Data, size: Size, draws: int) -> list[str]:
    """Return what was not as published."""
    told = "Synthetic data" if given.stand_in else "Covertype"
    found = [f"{told} replaces MiniBooNE, so only orderings compare"]
    if size is not Size.PUBLISHED:
        found.append(
            f"Each level has {size.of(2, 2, 4)} trials, not 10, which evaluate the training rows "
            f"{size.of(20, 60, 200)} times, not {PASSES:,}; `--published` makes all"
        )
    found.append(
        f"The true predictive mean is from {draws // 2:,} draws of each of two exact chains from "
        "the mode, not from 400,000 draws from one feature"
    )
    return [*found, "Means leave out the first half of the draws"]


def claims(ends: dict[str, Part], levels: dict[float, Level]) -> list[Claim]:
    """Return what must come out: orderings."""
    one, mode = ends[ONE], ends[MODE]
    features, errors = (float(one[of].mean() / mode[of].mean()) for of in ("features", "error"))
    risks = {epsilon: float(found.risk[-1]) for epsilon, found in levels.items()}
    best = min(risks, key=lambda epsilon: risks[epsilon])
    ratio = risks[0.0] / risks[best]
    relative = [levels[e].risk_error[-1] / risks[e] for e in (0.0, best)]
    rows = float(ends[OURS]["rows"].mean() / levels[0.0].rows.mean())
    least = "risk with ε = 0, in the least (± its standard error)"
    return [
        Claim("features selected from one, relative to the mode", "12 of 45", None, 1.0, features),
        Claim(
            "test error from one feature, relative to the mode", "15 % of 10 %", 1.0, None, errors
        ),
        Claim("ε of the least risk at equal rows", "> 0", 0.01, None, best),
        Claim(least, "> 1", 1.0, None, ratio, ratio * float(np.hypot(*relative))),
        Claim(f"{OURS}: share of the rows that an update reads", "-", None, 1.0, rows),
    ]


def ends_table(ends: dict[str, Part]) -> Table:
    """Return what is selected from each start."""
    published = {ONE: ("12", "15 %"), MODE: ("45", "10 %")}
    lines: list[list[Any]] = []
    for name, found in ends.items():
        features, error = published.get(name, (None, None))
        cost = float(found["accepted"].mean()), float(found["rows"].mean())
        ours = mean_sd(found["features"]), mean_sd(found["error"])
        lines.append([name, features, ours[0], error, ours[1], *cost])
    head = ["start, exact chains", "features, published", "ours", "test error, published", "ours"]
    return Table("What is selected", [*head, "acceptance", "rows an update"], lines)


def levels_table(levels: dict[float, Level]) -> Table:
    """Return what the tests read from one feature, and where they end."""
    exact = levels[0.0].rows.mean()
    lines: list[list[Any]] = [
        [
            epsilon,
            float(found.rows.mean()),
            float(exact / found.rows.mean()),
            float(found.accepted.mean()),
            mean_sd(found.features),
            mean_sd(found.error),
            (float(found.risk[-1]), float(found.risk_error[-1])),
            float(found.seconds.mean()),
        ]
        for epsilon, found in levels.items()
    ]
    head = ["ε", "rows an update", "updates at equal rows, relative to ε = 0", "acceptance"]
    head += ["features", "test error", "risk (± standard error)", "seconds a trial"]
    return Table("From one feature, at equal rows", head, lines)


def panels(levels: dict[float, Level]) -> list[Panel]:
    """Return figure 4, against rows that were read, with bands of one standard error."""
    curves = [
        curve(f"ε = {epsilon:g}", found.read, found.risk, sd=found.risk_error)
        for epsilon, found in levels.items()
    ]
    return [Panel("Risk in the predictive mean", "rows read", "risk", curves, True, True)]


if __name__ == "__main__":
    main(experiment)
