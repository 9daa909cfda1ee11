"""Zhang, Cooper and De Sa (2020), section 5.1: robust linear regression with 100 coefficients.

Figure 2: effective draws a second and rows an update of exact methods, over the number of rows N,
without and with knowledge of the mode.

Settings that the text does not have are chosen here. Covariates and errors are standard normal,
coefficients 1, the prior is flat and the scale of the errors known; at the largest N, FlyMC and
TunaMH are run on errors of the model's own Student-t distribution as well. FlyMC proposes a tenth
of the dark rows at an update; with bounds that touch at the mode 20 of them, about as many as are
bright. Chains start at draws from the normal
approximation of the posterior instead of where the authors' did, which is unknown, so that MH and
TunaMH from the mode are the same chains as without it. Every walk is tuned to the published
acceptance of .25 by short trials.

Walks need far more updates for an effective draw than can be run for all methods. Effective draws
are counted from displacements: the coordinates of a walk lose their memory exponentially, and the
mean square displacement over `LAG` updates says how fast. What ArviZ finds in the same chains, most
of them far too short for it, stands beside.

Appendix J.1 has AustereMH on this regression, which is inexact. Its settings are not at hand: here
are levels of its test on the walk of MH, at the smallest N.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from numpy.typing import NDArray
from scipy.special import ndtri

from papers.report import Cell, Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import (
    AustereMH,
    Bounds,
    FactorizedMH,
    FireflyMH,
    RandomWalk,
    TunaMH,
    TunaPaperMH,
    explain,
)
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.steps.base import MinibatchStep

D, NU, CHI, LAG, ACCEPTANCE, PILOTS = 100, 4, 1e-6, 50, 0.25, 4
#: Levels of AustereMH's test, the exact one first, and rows of a look.
EPSILONS, LOOK = (0.0, 0.01, 0.05, 0.1), 100
#: Rows that are bright if bounds touch at the mode, about.
BRIGHT = 20.0
MH, TFMH, FLY, TUNA = "MH", "TFMH", "FlyMC", "TunaMH"
EXTRA = "errors from Student's t"
SMH_1, SMH_2, FLY_MAP, OURS = "SMH-1", "SMH-2", "FlyMC-MAP", "default TunaMH"
WITHOUT_MODE, WITH_MODE = (MH, TFMH, FLY, TUNA), (SMH_1, SMH_2, FLY_MAP, OURS)


@dataclass(frozen=True)
class Found:
    """What was measured of a method: rows and effective draws.

    Parameters
    ----------
    rows
        Rows of an update, mean and standard deviation over chains; of FlyMC the bright ones.
    per_update
        Effective draws an update, mean over coordinates.
    seconds
        Seconds an update takes a chain.
    acceptance
        Share of the updates that were accepted.
    by_arviz
        Effective draws an update as ArviZ finds them.
    evaluated
        Rows of an update, of FlyMC the bright ones and the dark ones that are proposed.
    walk
        Standard deviation of the walk, of each coordinate.
    """

    rows: tuple[float, float]
    per_update: float
    seconds: float
    acceptance: float
    by_arviz: float
    evaluated: float
    walk: float | None = None

    @property
    def per_second(self) -> float:
        """Effective draws a second."""
        return self.per_update / self.seconds


def data(
    rows: int, seed: int, heavy: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return covariates, and outcomes with normal errors or with heavy tails."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, D))
    errors = rng.standard_t(NU, rows) if heavy else rng.standard_normal(rows)
    return X, X.sum(axis=1) + errors


def regression(X: Array, y: Array) -> pm.Model:
    """Return the model."""
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=D)
        pm.StudentT("y", nu=NU, mu=pm.math.dot(X, beta), sigma=1.0, observed=y)
    return model


def distance(start: Array, end: Array) -> float:
    """Return the length of a move, the M of the authors' bounds."""
    return np.sqrt(((end - start) ** 2).sum())


def lipschitz(X: Array) -> Array:
    """Return what no gradient of a row's log-likelihood is longer than."""
    return (NU + 1) / (2.0 * np.sqrt(NU)) * np.linalg.norm(X, axis=1)


type Make = Callable[[float], MinibatchStep]


def walks(model: pm.Model, X: Array, mode: Array, sd: float) -> dict[str, tuple[Make, float]]:
    """Return what makes the step of each method for a walk, and a first guess at that."""
    bounds = Bounds(lipschitz(X), distance)
    total = float(lipschitz(X).sum()) * np.sqrt(D)
    best = 2.38 / np.sqrt(D) * sd
    plain: dict[str, Any] = {
        "model": model,
        "centre": "start",
        "initial_point": {"beta": mode},
        "full_pass_above": np.inf,
    }
    expanded: dict[str, Any] = {"model": model, "full_pass_above": np.inf}
    tuna: dict[str, Any] = {"chi": CHI, "bounds": bounds, **plain}

    def walk(scale: float) -> Any:
        return RandomWalk(scale, covariance="identity", adapt=False)

    return {
        MH: (lambda s: AustereMH(epsilon=0.0, proposal=walk(s), **plain), best),
        TFMH: (lambda s: FactorizedMH(bounds=bounds, proposal=walk(s), **plain), 60.0 / total),
        FLY: (lambda s: FireflyMH(bound="untuned", proposal=walk(s), **expanded), 0.7 * best),
        TUNA: (lambda s: TunaPaperMH(proposal=walk(s), **tuna), min(500.0 / total, best)),
        SMH_1: (
            lambda s: FactorizedMH(taylor_order=1, proposal=walk(s), **expanded),
            0.15 * best,
        ),
        SMH_2: (
            lambda s: FactorizedMH(taylor_order=2, proposal=walk(s), **expanded),
            0.3 * best,
        ),
        FLY_MAP: (
            lambda s: FireflyMH(bound="map", q=BRIGHT / len(X), proposal=walk(s), **expanded),
            0.7 * best,
        ),
    }


def tuned(make: Make, scale: float, updates: int, options: dict[str, Any]) -> float:
    """Return the walk that has the published acceptance, found by pilots."""
    for _ in range(PILOTS):
        accepted = np.clip(trials(make(scale), updates, **options).acceptance, 0.02, 0.98)
        # Acceptance is 2 Φ(-z/2) with z about in proportion to the walk, or to its square root.
        scale *= float((ndtri(0.5 * ACCEPTANCE) / ndtri(0.5 * accepted)) ** 1.5)
    return scale


def of_a_walk(run: Run, variances: Array) -> float:
    """Return effective draws an update, by how fast the walk's memory fades."""
    draws = run.values("beta")
    lag = min(LAG, draws.shape[1] // 4)
    squares = ((draws[:, lag:] - draws[:, :-lag]) ** 2).mean(axis=(0, 1))
    remembered = max(1.0 - float((squares / (2.0 * variances)).mean()), 1e-12) ** (1.0 / lag)
    return (1.0 - remembered) / (1.0 + remembered)


def found(name: str, run: Run, variances: Array, tune: int = 0) -> Found:
    """Return what a run says of its method; its seconds are those of warm-up as well."""
    updates = run.rows.shape[0] * (tune + run.rows.shape[1])
    bright = run.stat("n_bright") if name in (FLY, FLY_MAP) else None
    rows = (run.rows if bright is None else bright).mean(axis=1)
    # An update reads the bright rows where it starts as well, which need not be: it was there.
    evaluated = float((run.rows - (0.0 if bright is None else bright)).mean())
    by_arviz = float(az.ess(run.trace, var_names=["beta"])["beta"].mean()) / run.rows.size
    per_update = by_arviz if name == OURS else of_a_walk(run, variances)
    seconds = run.seconds / updates
    return Found(mean_sd(rows), per_update, seconds, run.acceptance, by_arviz, evaluated)


def inexact(rows: int, size: Size, seed: int) -> Table:
    """Return how far draws of AustereMH are from the mode, relative to those of the posterior."""
    model = regression(*data(rows, seed))
    known = TunaMH(model=model).reference
    variances, starts = placed(known, seed)
    scale = 2.38 / np.sqrt(D) * np.sqrt(variances.mean())
    lines: list[list[Cell]] = []
    for epsilon in EPSILONS:
        step = AustereMH(
            model=model,
            epsilon=epsilon,
            batch_size=LOOK,
            centre="start",
            full_pass_above=np.inf,
            proposal=RandomWalk(scale, covariance="identity", adapt=False),
        )
        run = trials(step, size.of(40, 2_000, 50_000), starts=starts, seed=seed)
        spread = ((run.values("beta") - known.centre) ** 2).mean(axis=1) / variances
        read = mean_sd(run.rows.mean(axis=1))
        lines.append([epsilon, read, run.acceptance, mean_sd(spread.mean(axis=1))])
    head = [
        "ε",
        "rows an update",
        "acceptance",
        "squared distance from the mode, in the posterior's",
    ]
    return Table(f"AustereMH, N = {rows:,}", head, lines)


def placed(known: Reference, seed: int) -> tuple[Array, list[dict[str, Array]]]:
    """Return variances of the normal approximation, and two draws from it as starts."""
    rng = np.random.default_rng(seed)
    draws = [known.centre + known.factor @ rng.standard_normal(D) for _ in range(2)]
    return (known.factor**2).sum(axis=1), [{"beta": draw} for draw in draws]


def compare(rows: int, size: Size, seed: int, heavy: bool = False) -> tuple[dict[str, Found], str]:
    """Run all methods on some rows, and ask what is recommended; with heavy errors only two."""
    X, y = data(rows, seed, heavy)
    model = regression(X, y)
    ours = TunaMH(model=model)
    mode = ours.reference.centre
    variances, starts = placed(ours.reference, seed)
    # One thread, so that seconds are those of one chain after the other.
    options: dict[str, Any] = {"starts": starts, "seed": seed, "cores": 1}
    measured = {}
    for name, (make, guess) in walks(model, X, mode, float(np.sqrt(variances.mean()))).items():
        if heavy and name not in (FLY, TUNA):
            continue
        quick = name in (TFMH, TUNA)
        draws = size.of(40, 1_000, 4_000) if quick else size.of(40, 200, 500)
        walk = tuned(make, guess, min(draws // 2, 1_000), options)
        own = found(name, trials(make(walk), draws, **options), variances)
        measured[name] = replace(own, walk=walk)
    draws = size.of(100, 500, 1_000)
    run = trials(ours, draws, tune=draws, **options)
    measured[OURS] = found(OURS, run, variances, draws)
    return measured, explain(model, draws=size.of(100, 500, 500), nuts=False).recommended


def experiment(size: Size, seed: int) -> Report:
    """Run all methods over the number of rows."""
    counts = size.of([2_000], [5_000, 20_000], [5_000, 20_000, 100_000])
    measured: dict[int, dict[str, Found]] = {}
    recommended = {}
    for rows in counts:
        measured[rows], recommended[rows] = compare(rows, size, seed)
    heavy, _ = compare(max(counts), size, seed, heavy=True)
    advice = "; ".join(f"{name} at N = {rows:,}" for rows, name in recommended.items())
    return Report(
        "Zhang, Cooper and De Sa (2020), section 5.1: figure 2",
        [*of_fly(measured[max(counts)], heavy, max(counts)), *claims(measured)],
        [
            *(table(f"N = {rows:,}", methods) for rows, methods in measured.items()),
            table(f"N = {max(counts):,}, {EXTRA}", heavy),
            inexact(min(counts), size, seed),
        ],
        drawn(measured),
        [
            "The paper does not give the data, the starting points and the numbers of rows in "
            "between.",
            "Each method has 2 chains, not 3, from draws of the normal approximation.",
            "Effective draws follow from displacements for walks, and from autocorrelations for "
            "the default step.",
            "FlyMC's rows are its bright ones, unless said otherwise.",
            f"explain() recommends {advice}.",
        ],
    )


def of_fly(methods: dict[str, Found], heavy: dict[str, Found], rows: int) -> list[Claim]:
    """Return how many rows FlyMC needs more than TunaMH: by two counts, and on other errors."""
    where = f"relative to the rows of TunaMH, N = {rows:,}"
    read = methods[TUNA].rows[0]
    ratios = {
        f"bright rows of FlyMC, {where}": methods[FLY].rows[0] / read,
        f"bright and proposed rows of FlyMC, {where}": methods[FLY].evaluated / read,
        f"bright rows of FlyMC, {where}, {EXTRA}": heavy[FLY].rows[0] / heavy[TUNA].rows[0],
    }
    # The second and the third are other readings of the same figure.
    return [
        Claim(what, "about 35", 25.0, 50.0, ratio, chosen=k > 0)
        for k, (what, ratio) in enumerate(ratios.items())
    ]


def claims(measured: dict[int, dict[str, Found]]) -> list[Claim]:
    """Return what must come out."""
    result = []
    for rows, methods in measured.items():
        speeds = {name: method.per_second for name, method in methods.items()}
        for label, others in (
            ("without the mode", (MH, TFMH, FLY)),
            ("with the mode", (MH, SMH_1, SMH_2, FLY_MAP)),
        ):
            gain = speeds[TUNA] / max(speeds[name] for name in others)
            what = f"ESS/s of TunaMH, relative to the best other {label}, N = {rows:,}"
            result.append(Claim(what, "> 1", 1.0, None, gain))
        walks_of = {name: method.walk for name, method in methods.items() if method.walk}
        what = f"walk of TFMH, relative to TunaMH, N = {rows:,}"
        result.append(Claim(what, "very small (5.1)", None, 0.5, walks_of[TFMH] / walks_of[TUNA]))
        gain = speeds[OURS] / max(speed for name, speed in speeds.items() if name != OURS)
        what = f"ESS/s of {OURS}, relative to the best other, N = {rows:,}"
        result.append(Claim(what, "-", 1.0, None, gain))
    return result


def table(caption: str, methods: dict[str, Found]) -> Table:
    """Return everything that was measured of some methods."""
    lines: list[list[Cell]] = [
        [
            name,
            method.rows,
            method.evaluated,
            method.acceptance,
            method.walk,
            1e6 * method.seconds,
            method.per_second,
            method.by_arviz / method.seconds,
            method.rows[0] / method.per_update,
        ]
        for name, method in methods.items()
    ]
    head = ["method", "rows an update", "evaluated", "acceptance", "walk's sd"]
    head += ["µs an update", "ESS/s", "ArviZ's ESS/s"]
    return Table(caption, [*head, "rows an effective draw"], lines)


def drawn(measured: dict[int, dict[str, Found]]) -> list[Panel]:
    """Return the four panels of figure 2, with ours beside the methods that know the mode."""
    panels = []
    known = MH, TUNA, *WITH_MODE
    for label, names in (("without the mode", WITHOUT_MODE), ("with the mode", known)):
        for what, value in (
            ("Effective draws a second", lambda method: method.per_second),
            ("Rows an update", lambda method: method.rows[0]),
        ):
            lines = [
                curve(name, list(measured), [value(methods[name]) for methods in measured.values()])
                for name in names
            ]
            title, axis = f"{what}, {label}", what.lower()
            panels.append(Panel(title, "N", axis, lines, log_x=True, log_y=True))
    return panels


if __name__ == "__main__":
    main(experiment)
