"""Zhang, Cooper and De Sa (2020), section 5.3: logistic regression of MNIST's 7 against 9.

Table 1 (its second line) and figure 4: rows that five methods read, and how fast their draws learn
to classify. Besides, what a draw that is as good as an independent one costs in rows.

The paper's methods are run from its starts and from the posterior, where starts at the mode lead
(the paper's MAP variants); SMH is TFMH with control variates.

Settings that the text does not have are those of the authors' own runs: 50 components that are not
standardised, a flat prior, no intercept, isotropic walks of standard deviation .001 (TunaMH at χ =
1e-5), .0015 (1e-4), .0025 (5e-4), .0001 (TFMH), .002 (FlyMC) and .005 (MH), c_i = |x_i| and M =
|θ' - θ|, which the package derives by itself; and, from their programme
(github.com/ruqizhang/tunamh), each weight of a start uniform in ±1/√50, 45,000 updates of TunaMH,
600,000 of TFMH, 5,000 of FlyMC and 4,000 of MH. FlyMC's rows are its bright ones.
"""

from typing import Any

import numpy as np
import pymc as pm

from papers.data import Digits, sevens_and_nines
from papers.report import Cell, Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import (
    AustereMH,
    FactorizedMH,
    FireflyMH,
    RandomWalk,
    ScalableSubsamplingMH,
    TunaMH,
    TunaPaperMH,
)
from pymc_minibatch_mh.steps.base import MinibatchStep

COMPONENTS = 50
#: χ -> standard deviation of the walk, published rows.
TUNA = {1e-5: (1e-3, 504.07), 1e-4: (1.5e-3, 810.35), 5e-4: (2.5e-3, 2047.91)}
TFMH, NO_VETO, FLY, ALL, OURS = "TFMH", "MH-SS", "FlyMC", "MH", "TunaMH()"
TFMH_ROWS, FLY_ROWS = (39.28, 0.12), (1960.19, 150.96)
#: C E|θ' - θ| of TFMH's walk on these data.
CEILING = 50.2
#: Share of the rows that is bright if bounds touch at the mode, about.
BRIGHT = 0.005
#: From draw to draw of TFMH.
THIN = 60


def tuna(chi: float) -> str:
    """Return how a figure names TunaMH as published."""
    return f"Tuna, χ = {chi:g}"


WALKS = {tuna(chi): scale for chi, (scale, _) in TUNA.items()}
WALKS |= {TFMH: 1e-4, NO_VETO: 1e-4, FLY: 2e-3, ALL: 5e-3}
#: Updates of the authors' programme; those of others are ours.
UPDATES, OTHERS = {tuna(1e-5): 45_000, TFMH: 600_000, FLY: 5_000, ALL: 4_000}, 10_000


def regression(digits: Digits) -> pm.Model:
    """Return the model of section 5.3."""
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=digits.X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(digits.X, beta), observed=digits.y)
    return model


def walk(scale: float) -> RandomWalk:
    """Return the walk of section 5."""
    return RandomWalk(scale, covariance="identity", adapt=False)


def published(model: pm.Model, *, thin: int = 1) -> dict[str, MinibatchStep]:
    """Return the methods of figure 4; `thin` updates of TFMH make a draw."""
    shared: dict[str, Any] = {"model": model, "centre": "start", "full_pass_above": np.inf}
    found: dict[str, MinibatchStep] = {
        tuna(chi): TunaPaperMH(chi=chi, proposal=walk(scale), **shared)
        for chi, (scale, _) in TUNA.items()
    }
    found[TFMH] = FactorizedMH(proposal=walk(WALKS[TFMH]), updates_per_draw=thin, **shared)
    # Of the same bounds and moves, without a veto that ends the reading.
    found[NO_VETO] = ScalableSubsamplingMH(proposal=walk(WALKS[NO_VETO]), **shared)
    found[FLY] = FireflyMH(bound="untuned", proposal=walk(WALKS[FLY]), **shared)
    found[ALL] = AustereMH(epsilon=0.0, proposal=walk(WALKS[ALL]), **shared)
    return found


def with_mode(model: pm.Model) -> dict[str, MinibatchStep]:
    """Return the methods that know the mode, with walks that warm-up adapts."""
    isotropic = RandomWalk(1e-2, covariance="identity")
    return {
        "SMH-1": FactorizedMH(model=model, taylor_order=1, proposal=isotropic),
        "SMH-2": FactorizedMH(model=model, taylor_order=2, proposal=isotropic),
        "FlyMC-MAP": FireflyMH(model=model, bound="map", q=BRIGHT, proposal=isotropic),
    }


def least_updates(run: Run, spread: Array) -> float:
    """Return updates for one effective draw of the slowest weight, at least.

    A reversible chain whose draws have lag-1 autocorrelation ρ needs (1 + ρ)/(1 - ρ) updates or
    more (by Jensen's inequality, over its spectrum), and ρ = 1 - E(step²)/(2 var), whose variance
    the draws of another chain can tell.
    """
    jumped = (np.diff(run.values("beta"), axis=1) ** 2).mean(axis=(0, 1))
    return float((4.0 * spread / jumped - 1.0).max())


def thinned(name: str) -> int:
    """Return the updates from draw to draw of the runs from the paper's starts."""
    return THIN if name == TFMH else 1


def seconds_per_update(run: Run) -> float:
    """Return seconds of a draw: their median, as other programs interrupt some."""
    return float(np.median(run.stat("perf_counter_diff")))


def from_starts(model: pm.Model, size: Size, seed: int) -> dict[str, Run]:
    """Sample with the published methods, and ours, from the paper's starts."""
    ends = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, COMPONENTS)) / np.sqrt(COMPONENTS)
    starts = [{"beta": start} for start in ends[: size.of(2, 2, 3)]]
    found = {}
    for name, step in published(model, thin=THIN).items():
        draws = UPDATES.get(name, OTHERS) // thinned(name) // size.of(50, 2, 1)
        found[name] = trials(step, draws, starts=starts, seed=seed)
    found[OURS] = trials(TunaMH(model=model), size.of(50, 500, 500), starts=starts, seed=seed)
    return found


def from_posterior(
    model: pm.Model, reference: Run, size: Size, seed: int
) -> dict[str, tuple[Run, float]]:
    """Sample with all methods from draws of the posterior; return what an effective draw takes."""
    starts = [{"beta": chain[-1]} for chain in reference.values("beta")]
    spread = reference.values("beta").var(axis=(0, 1))
    found = {}
    for name, step in (published(model) | with_mode(model)).items():
        tune = 0 if name in WALKS else size.of(50, 500, 1_000)
        run = trials(step, size.of(100, 500, 2_000), starts=starts, tune=tune, seed=seed)
        found[name] = run, run.rows_per_update[0] * least_updates(run, spread)
    return found | {OURS: (reference, reference.rows_per_effective_draw("beta"))}


def experiment(size: Size, seed: int) -> Report:
    """Run the methods from the paper's starts, and from the posterior."""
    digits = sevens_and_nines()
    model = regression(digits)
    begun = from_starts(model, size, seed)
    draws, tune = size.of(300, 3_000, 5_000), size.of(200, 1_000, 1_000)
    reference = trials(TunaMH(model=model), draws, chains=2, tune=tune, seed=seed)
    settled = from_posterior(model, reference, size, seed)
    return Report(
        "Zhang, Cooper and De Sa (2020), section 5.3: table 1 and figure 4",
        claims(begun, settled),
        [rows_table(begun), costs_table(settled, digits)],
        panels(begun, digits),
        [*digits.differences, "The rows of TunaMH() exclude its preparation"],
    )


def counted(name: str, run: Run) -> tuple[float, float]:
    """Return rows an update as the paper counts them: FlyMC's bright ones."""
    rows = run.stat("n_bright") if name == FLY else run.rows / thinned(name)
    return mean_sd(rows.mean(axis=1))


def claims(begun: dict[str, Run], settled: dict[str, tuple[Run, float]]) -> list[Claim]:
    """Return what must come out."""
    result = []
    for chi, (scale, rows) in TUNA.items():
        what = f"{tuna(chi)}, walk {scale:g}: rows an update"
        measured = begun[tuna(chi)].rows_per_update
        result.append(Claim(what, f"{rows}", 0.99 * rows, 1.01 * rows, *measured))
    mean, error = TFMH_ROWS
    what = f"TFMH, walk .0001: rows up to a veto, mean of {UPDATES[TFMH]:,} updates"
    measured = counted(TFMH, begun[TFMH])
    result.append(Claim(what, f"{mean} ± {error}", 0.98 * mean, 1.02 * mean, *measured))
    what = "TFMH, walk .0001: rows without an end at a veto, as MH-SS reads them"
    low, high = 0.98 * CEILING, 1.02 * CEILING
    result.append(Claim(what, "-", low, high, *begun[NO_VETO].rows_per_update))
    mean, error = FLY_ROWS
    what = f"FlyMC, walk .002: bright rows, mean of {UPDATES[FLY]:,} updates"
    limits = mean - error, mean + error
    result.append(Claim(what, f"{mean} ± {error}", *limits, *counted(FLY, begun[FLY])))
    ratio = settled[tuna(1e-5)][1] / settled[OURS][1]
    what = "TunaMH(): rows an effective draw, those at χ = 1e-5 (at least) in ours"
    result.append(Claim(what, "-", 1_000.0, None, ratio))
    return result


def rows_table(begun: dict[str, Run]) -> Table:
    """Return table 1 beside ours, and more of the runs from the paper's starts."""
    paper = {tuna(chi): rows for chi, (_, rows) in TUNA.items()}
    lines: list[list[Cell]] = []
    for name, run in begun.items():
        shown = {TFMH: TFMH_ROWS, FLY: FLY_ROWS}.get(name, paper.get(name))
        line = [name, WALKS.get(name), shown, counted(name, run)]
        line += [mean_sd(run.rows.mean(axis=1) / thinned(name)), run.rows.shape[1] * thinned(name)]
        lines.append([*line, run.acceptance, 1e6 * seconds_per_update(run) / thinned(name)])
    head = [
        "method",
        "walk",
        "rows, table 1",
        "ours",
        "all rows evaluated",
        "updates a trial",
    ]
    head += ["acceptance", "microseconds of one core an update"]
    return Table(
        "Rows an update, from the paper's starts (TFMH and FlyMC: ± standard errors)", head, lines
    )


def costs_table(settled: dict[str, tuple[Run, float]], digits: Digits) -> Table:
    """Return what effective draws cost where chains have settled."""
    lines: list[list[Cell]] = []
    for name, (run, rows) in settled.items():
        bright = float(run.stat("n_bright").mean()) if name.startswith(FLY) else None
        accuracy = float(digits.accuracy(run.values("beta").mean(axis=(0, 1))))
        line = [name, run.rows_per_update, bright, run.acceptance, rows]
        lines.append([*line, rows / run.rows_per_update[0] * seconds_per_update(run), accuracy])
    head = ["method", "rows an update", "bright rows", "acceptance", "rows an effective draw"]
    head += ["seconds of one core an effective draw", "accuracy of the mean"]
    title = "From the posterior; the walks' effective draws (slowest weight) cost as much or more"
    return Table(title, head, lines)


def panels(begun: dict[str, Run], digits: Digits) -> list[Panel]:
    """Return figure 4: accuracy against rows, updates and seconds; and FlyMC's bright rows."""
    by_rows, by_updates, by_seconds = [], [], []
    for name, run in begun.items():
        draws = run.values("beta")
        seen = np.unique(np.geomspace(1, draws.shape[1], 150).astype(int)) - 1
        accuracy = digits.accuracy(draws[:, seen]).mean(axis=0)
        read = run.rows.mean(axis=0).cumsum()[seen]
        made = (seen + 1) * thinned(name)
        by_rows.append(curve(name, read, accuracy))
        by_seconds.append(curve(name, seconds_per_update(run) * (seen + 1), accuracy))
        if name == ALL or name.startswith("Tuna,"):
            by_updates.append(curve(name, made, accuracy))
    y = "test accuracy"
    return [
        Panel("Accuracy against rows", "rows read", y, by_rows, log_x=True),
        Panel("Accuracy against updates (figure 4b)", "updates", y, by_updates, log_x=True),
        Panel("Accuracy against time (figures 4a, 4c)", "seconds", y, by_seconds, log_x=True),
        means("TFMH: rows up to a veto", begun[TFMH].rows / THIN, THIN, TFMH_ROWS[0]),
        means("FlyMC: bright rows", begun[FLY].stat("n_bright"), 1, FLY_ROWS[0]),
    ]


def means(title: str, rows: Array, thin: int, published_mean: float) -> Panel:
    """Return rows of the trials against updates, their mean up to there, and the published one."""
    made = thin * np.arange(1, rows.shape[1] + 1)
    # Blocks of a hundredth of the draws.
    edges = np.linspace(0, rows.shape[1], min(100, rows.shape[1]) + 1).astype(int)[:-1]
    blocks = np.add.reduceat(rows, edges, axis=1) / np.diff(edges, append=rows.shape[1])
    curves = [curve(f"trial {i + 1}", made[edges], trial) for i, trial in enumerate(blocks)]
    up_to = rows.mean(axis=0).cumsum() / np.arange(1, rows.shape[1] + 1)
    curves.append(curve("mean up to there", made, up_to))
    curves.append(curve("published mean", made[[0, -1]], [published_mean] * 2, "dashed"))
    return Panel(title, "updates", "rows", curves)


if __name__ == "__main__":
    main(experiment)
