"""Korattikara et al. (2014), section 6.3: variable selection by birth and death.

Figure 4, and the figures of the text: risk in the predictive mean of test rows for levels ε of the
sequential test, and what is selected from one feature and from the mode of all features.

Moves, prior and step sizes are those of the supplement, in ``birth_death.py``. The MiniBooNE data
are not at hand: as many rows of Covertype (spruce and fir, or not) with as many features stand for
them, where the folder that the environment variable ``PYMC_MINIBATCH_MH_DATA`` names has
``covtype.npz``, and made-up rows elsewhere. Other data have another number of features that matter,
so that only orderings can be compared.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from scipy.special import expit, logit

from birth_death import BIRTH, UPDATE, birth_death, regression
from papers.data import stored
from papers.report import Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import AustereMH, OwnMove, TunaMH

ROWS, FEATURES, TRAINING = 130_065, 50, 104_052
EPSILONS = (0.0, 0.01, 0.05, 0.1)
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
    x = np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / x.std(axis=0)])
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


def austere(model: pm.Model, epsilon: float) -> AustereMH:
    """Return the test of a level on the published moves."""
    return AustereMH(
        model=model,
        epsilon=epsilon,
        batch_size=BATCH,
        centre="start",
        full_pass_above=np.inf,
        proposal=OwnMove(birth_death, state=[UPDATE, BIRTH]),
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


@dataclass(frozen=True)
class Settled:
    """Where trials end: features in a draw, and test error, over the later half of the draws."""

    run: Run
    features: tuple[float, float]
    error: tuple[float, float]


def settled(run: Run, given: Data) -> Settled:
    """Look at the later half of the draws."""
    weights = run.values("w")[:, run.rows.shape[1] // 2 :]
    features = (weights != 0.0).sum(axis=-1).mean(axis=1)
    means = np.array([expit(w @ given.X_test.T).mean(axis=0) for w in weights])
    return Settled(run, mean_sd(features), mean_sd(((means > 0.5) != given.y_test).mean(axis=1)))


@dataclass(frozen=True)
class Level:
    """Trials of a level from one feature, their risk by rows read, and rows of an update."""

    ended: Settled
    read: Array
    risk: Array
    rows_per_update: float


def level(step: AustereMH, given: Data, start: Array, truth: Array, size: Size, seed: int) -> Level:
    """Run a level from one feature, on a number of rows that all levels have."""
    rows, passes = len(given.X), size.of(20, 60, 200)
    starts = [{"w": start}] * size.of(2, 2, 4)
    # Updates read more rows while the chain moves far than later on.
    pilot = trials(step, size.of(20, 100, 300), starts=starts[:2], seed=seed)
    per_update = pilot.rows_per_update[0]
    updates = int(1.15 * passes * rows / per_update)
    thin = max(1, updates // KEPT)
    run = trials(step, updates // thin, starts=starts, seed=seed + 1, thin=thin)
    end = min(passes * rows, float(run.rows.sum(axis=1).min()))
    read = np.geomspace(passes * rows / 100, end, 30)
    means = late_means(run, given.X_test, read)
    risk = ((means - truth) ** 2).mean(axis=(0, 2))
    return Level(settled(run, given), read, risk, float(run.rows.mean()) / thin)


def experiment(size: Size, seed: int) -> Report:
    """Select features from two starts with all rows, and with the sequential tests from one."""
    given = data(size.of(5_000, ROWS, ROWS))
    constant = float(logit(given.y.mean()))
    one = np.where(np.arange(FEATURES + 1) == 0, constant, 0.0)
    mode = mode_of(given)
    model = regression(given.X, given.y, mode)
    steps = {epsilon: austere(model, epsilon) for epsilon in EPSILONS}
    draws = size.of(100, 500, 1_600)
    ends = {
        name: settled(trials(steps[0.0], draws, starts=[{"w": w}] * 2, seed=seed + i), given)
        for i, (name, w) in enumerate({ONE: one, MODE: mode}.items())
    }
    later = ends[MODE].run.values("w")[:, draws // 2 :].reshape(-1, FEATURES + 1)
    truth = expit(later[:: size.of(1, 4, 8)] @ given.X_test.T).mean(axis=0)
    levels = {
        epsilon: level(step, given, one, truth, size, seed + 10 * i)
        for i, (epsilon, step) in enumerate(steps.items(), 1)
    }
    ours = TunaMH(model=model, proposal=OwnMove(birth_death, state=[UPDATE, BIRTH]))
    starts = [{"w": mode}] * 2
    ends[OURS] = settled(trials(ours, size.of(50, 100, 300), starts=starts, seed=seed + 90), given)
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
    return [
        f"{told} replaces MiniBooNE, so only orderings compare",
        f"Each level has {size.of(2, 2, 4)} trials, not 10, which evaluate the training rows "
        f"{size.of(20, 60, 200)} times, not 24,583",
        f"The true predictive mean is from {draws // 2:,} draws of each of two exact chains from "
        "the mode, not from 400,000 draws from one feature",
        "Means leave out the first half of the draws",
    ]


def claims(ends: dict[str, Settled], levels: dict[float, Level]) -> list[Claim]:
    """Return what must come out: orderings."""
    one, mode = ends[ONE], ends[MODE]
    risks = {epsilon: found.risk[-1] for epsilon, found in levels.items()}
    best = min(risks, key=lambda epsilon: risks[epsilon])
    return [
        Claim(
            "features selected from one, in those from the mode",
            "12 of 45",
            None,
            1.0,
            one.features[0] / mode.features[0],
        ),
        Claim(
            "test error from one feature, in that from the mode",
            "15 % of 10 %",
            1.0,
            None,
            one.error[0] / mode.error[0],
        ),
        Claim("ε of the least risk at equal rows", "> 0", 0.01, None, best),
        Claim(
            "risk with ε = 0, in the least risk", "> 1", 1.0, None, float(risks[0.0] / risks[best])
        ),
        Claim(
            f"{OURS}: share of the rows that an update reads",
            "-",
            None,
            1.0,
            float(ends[OURS].run.rows.mean()) / levels[0.0].rows_per_update,
        ),
    ]


def ends_table(ends: dict[str, Settled]) -> Table:
    """Return what is selected from each start."""
    published = {ONE: ("12", "15 %"), MODE: ("45", "10 %")}
    lines: list[list[Any]] = [
        [
            name,
            published.get(name, (None, None))[0],
            found.features,
            published.get(name, (None, None))[1],
            found.error,
            found.run.acceptance,
            float(found.run.rows.mean()),
        ]
        for name, found in ends.items()
    ]
    head = ["start, exact chains", "features, published", "ours", "test error, published", "ours"]
    return Table("What is selected", [*head, "acceptance", "rows an update"], lines)


def levels_table(levels: dict[float, Level]) -> Table:
    """Return what the tests read from one feature, and where they end."""
    exact = levels[0.0].rows_per_update
    lines: list[list[Any]] = [
        [
            epsilon,
            found.rows_per_update,
            exact / found.rows_per_update,
            found.ended.run.acceptance,
            found.ended.features,
            found.ended.error,
            float(found.risk[-1]),
            found.ended.run.seconds / found.ended.run.rows.shape[0],
        ]
        for epsilon, found in levels.items()
    ]
    head = ["ε", "rows an update", "updates at equal rows, relative to ε = 0", "acceptance"]
    head += ["features", "test error", "risk", "seconds a trial"]
    return Table("From one feature, at equal rows", head, lines)


def panels(levels: dict[float, Level]) -> list[Panel]:
    """Return figure 4, against rows that were read."""
    curves = [
        curve(f"ε = {epsilon:g}", found.read, found.risk) for epsilon, found in levels.items()
    ]
    return [Panel("Risk in the predictive mean", "rows read", "risk", curves, True, True)]


if __name__ == "__main__":
    main(experiment)
