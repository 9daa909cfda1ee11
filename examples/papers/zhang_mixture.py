"""Zhang, Cooper and De Sa (2020), section 5.2: a truncated mixture of two normal distributions.

The mixture's column of table 1, and figure 3: rows that four exact methods read, and how near their
draws come to the tempered posterior, of which the truth is known on a grid.

Settings that the text does not have are chosen here. Data, likelihood and temperature are those of
Seita et al. (2017), to whom the text refers, and the prior is uniform, as theirs is flat once it is
tempered like the likelihood. The walk is the one at which the expected rows of TunaMH are the
published ones, by hand-made bounds: the gradient of a row's log-likelihood is at most (|x| + 6)/√2
long, as no mean is further than that from the row. FlyMC's lower bounds are constants, which
truncation makes finite: half the first component's density at its furthest mean. PoissonMH has the
ranges that begin there.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray

from papers.report import Cell, Claim, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import (
    AustereMH,
    Bounds,
    FactorizedMH,
    FireflyMH,
    PoissonMH,
    RandomWalk,
    Ranges,
    TunaPaperMH,
)
from pymc_minibatch_mh.steps.base import MinibatchStep

VARIANCE, TEMPERATURE, CHI, END = 2.0, 1e4, 1e-4, 3.0
START = {"first": 0.5, "apart": 0.0}
TUNA, TFMH, FLY, POISSON = "TunaMH", "TFMH", "FlyMC", "PoissonMH"
DERIVED, SMALL_LAM, FULL = "TunaMH, derived bounds", "PoissonMH, λ = L", "MH"
SMH_1 = "SMH-1"
#: A mode, where the control variates of SMH-1 are expanded.
MODE = {"first": 0.0, "apart": 1.0}
#: Draws of each method, in those of `experiment`: enough for as many rows as are compared.
LENGTHS = {TFMH: 14.0, SMH_1: 1.3, TUNA: 4.0, DERIVED: 4.0, FLY: 0.5, POISSON: 0.1}
LENGTHS |= {SMALL_LAM: 0.4, FULL: 0.01}
#: Rows, and seconds as in figure 3c, after which divergences are compared.
READ, SECONDS = 1e7, 1.0
#: Published rows an update, and standard errors over 3 runs.
PUBLISHED = {TFMH: (13.91, 0.016), FLY: (811.52, 234.16), POISSON: (3969.67, 327.26)}
PUBLISHED[TUNA] = (86.45, 0.04)
#: Edges of cells, and points a cell and axis at which the posterior is evaluated.
EDGES, FINER = np.linspace(-END, END, 25), 4


def mixture(rows: int, seed: int) -> tuple[pm.Model, NDArray[np.float64]]:
    """Return the truncated model on data from θ = (0, 1), and the data."""
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.integers(0, 2, rows), np.sqrt(VARIANCE))
    with pm.Model() as model:
        first = pm.Uniform("first", -END, END, default_transform=None)
        apart = pm.Uniform("apart", -END, END, default_transform=None)
        means = pt.stack([first, first + apart])
        pm.NormalMixture("x", w=[0.5, 0.5], mu=means, sigma=np.sqrt(VARIANCE), observed=x)
    return model, x


def distance(start: Array, end: Array) -> float:
    """Return the length of a move, the M of hand-made bounds."""
    return np.sqrt(((end - start) ** 2).sum())


def constant(start: Array, end: Array) -> float:
    """Return what a bound that does not depend on the move is multiplied by."""
    return 1.0


def lipschitz(x: Array) -> Array:
    """Return what no gradient of a row's log-likelihood is longer than."""
    return np.sqrt(2.0) * (np.abs(x) + 2.0 * END) / VARIANCE


def ranges(x: Array) -> Callable[[Any], Ranges]:
    """Return hand-made ranges, as a function of the centre to which they are relative."""
    furthest = -((np.abs(x) + END) ** 2) / (2.0 * VARIANCE)

    def relative(centre: Any) -> Ranges:
        near = x - centre["first"]
        squares = near**2, (near - centre["apart"]) ** 2
        own = np.logaddexp(*(-square / (2.0 * VARIANCE) for square in squares))
        return Ranges(furthest - own, np.log(2.0) - own)

    return relative


def walk_that_reads(rows: float, total: float) -> float:
    """Return the walk's standard deviation at which TunaMH is expected to read some rows.

    They are CM + χ(CM)², M the length of a move, with twice the walk's variance as mean square.
    """
    linear, square = total * np.sqrt(np.pi / 2.0), 2.0 * CHI * total**2
    return float((np.sqrt(linear**2 + 4.0 * square * rows) - linear) / (2.0 * square))


def rates(x: Array, temperature: float) -> tuple[float, float]:
    """Return L of PoissonMH, and the λ with which it draws the published rows."""
    size = float((np.log(2.0) + (np.abs(x) + END) ** 2 / (2.0 * VARIANCE)).sum() / temperature)
    return size, max(PUBLISHED[POISSON][0] - size, size)


def steps(model: pm.Model, x: Array, temperature: float) -> dict[str, Callable[[], MinibatchStep]]:
    """Return what makes each of the steps that are compared, all on one walk."""
    c, levels = lipschitz(x) / temperature, ranges(x)
    by_hand = Bounds(c, distance)
    walk = RandomWalk(
        walk_that_reads(PUBLISHED[TUNA][0], c.sum()), covariance="identity", adapt=False
    )
    shared: dict[str, Any] = {
        "model": model,
        "centre": "start",
        "initial_point": START,
        "temperature": temperature,
        "proposal": walk,
        "full_pass_above": np.inf,
    }
    expanded = {k: v for k, v in shared.items() if k != "centre"} | {"initial_point": MODE}
    size, published = rates(x, temperature)

    def below(centre: Any) -> Bounds:
        return Bounds(-np.asarray(levels(centre).low) / temperature, constant)

    return {
        TFMH: lambda: FactorizedMH(bounds=by_hand, **shared),
        SMH_1: lambda: FactorizedMH(taylor_order=1, **expanded),
        TUNA: lambda: TunaPaperMH(chi=CHI, bounds=by_hand, **shared),
        FLY: lambda: FireflyMH(q=5e-4, bounds=below, **shared),
        POISSON: lambda: PoissonMH(lam=published, ranges=levels, **shared),
        SMALL_LAM: lambda: PoissonMH(lam=size, ranges=levels, **shared),
        DERIVED: lambda: TunaPaperMH(chi=CHI, **shared),
        FULL: lambda: AustereMH(epsilon=0.0, **shared),
    }


def shares(x: Array, temperature: float) -> Array:
    """Return the posterior's share of every cell, by the midpoint rule on a finer grid."""
    # Data enter through a histogram: rows that share a cell of .005 are taken for equal.
    counts, edges = np.histogram(x, np.arange(x.min() - 0.01, x.max() + 0.01, 0.005))
    middles, kept = 0.5 * (edges[1:] + edges[:-1])[counts > 0], counts[counts > 0]
    n_cells = EDGES.size - 1
    fine = np.linspace(-END, END, n_cells * FINER + 1)
    points = 0.5 * (fine[1:] + fine[:-1])
    log_density = np.empty((points.size, points.size))
    for i, first in enumerate(points):
        near = -((middles - first) ** 2) / (2.0 * VARIANCE)
        far = -((middles[:, None] - first - points) ** 2) / (2.0 * VARIANCE)
        log_density[i] = kept @ np.logaddexp(near[:, None], far) / temperature
    density = np.exp(log_density - log_density.max())
    cells = density.reshape(n_cells, FINER, n_cells, FINER).sum(axis=(1, 3))
    return np.asarray(cells / cells.sum())


def divergence(first: Array, apart: Array, cells: Array) -> float:
    """Return the symmetric KL divergence of draws from the posterior, on cells.

    Half a draw is added to every cell. Cells with less than 1e-4 of the posterior are left out.
    """
    large = cells > 1e-4
    counts = np.histogram2d(first, apart, EDGES)[0][large] + 0.5
    p, q = counts / counts.sum(), cells[large] / cells[large].sum()
    return float(((p - q) * np.log(p / q)).sum())


def approach(run: Run, cells: Array) -> tuple[Array, Array, Array]:
    """Return divergences after some numbers of draws, and rows read and seconds until then."""
    first, apart, rows = run.values("first"), run.values("apart"), run.rows
    ends = np.unique(np.geomspace(10, first.shape[1], 25).astype(int))
    found = [
        np.mean([divergence(a[:end], b[:end], cells) for a, b in zip(first, apart, strict=True)])
        for end in ends
    ]
    read = rows.cumsum(axis=1).mean(axis=0)[ends - 1]
    return np.array(found), read, run.seconds / rows.size * ends


def experiment(size: Size, seed: int) -> Report:
    """Run all steps on one walk, and count what they read and how near they come."""
    rows, draws = size.of(20_000, 10**6, 10**6), size.of(100, 3_000, 30_000)
    temperature = TEMPERATURE * rows / 10**6
    model, x = mixture(rows, seed)
    cells = shares(x, temperature)
    runs = {}
    for name, make in steps(model, x, temperature).items():
        count = max(int(LENGTHS[name] * draws), 20)
        # One thread, so that seconds are those of one chain after the other.
        options = {"seed": seed, "cores": 1}
        runs[name] = trials(make(), count, starts=[START] * 3, **options)
    total, lam = rates(x, temperature)
    drawn_rows = {POISSON: lam + total, SMALL_LAM: 2.0 * total}
    counted = {name: rows_of(name, run, drawn_rows) for name, run in runs.items()}
    paths = {name: approach(run, cells) for name, run in runs.items()}
    by_rows = {name: at(READ, read, found) for name, (found, read, _) in paths.items()}
    by_time = {name: at(SECONDS, passed, found) for name, (found, _, passed) in paths.items()}
    return Report(
        "Zhang, Cooper and De Sa (2020), section 5.2: table 1 and figure 3",
        [
            *claims(counted),
            *orders(by_rows, f"after {READ:.0e} rows"),
            *orders(by_time, "after a second", chosen=True),
        ],
        [table(runs, counted, by_rows, by_time), shorter_walks(model, x, temperature, size, seed)],
        drawn(runs, paths, cells),
        [
            "The paper does not give data, prior, walk, lower bounds of FlyMC and λ of PoissonMH. "
            "All methods use the walk with which TunaMH evaluates the published rows; the authors "
            "tuned each walk.",
            "λ + L of PoissonMH, the rows that it draws, is the published figure. Rows that it "
            "keeps are evaluated twice.",
            "FlyMC's rows are its bright ones. SMH-1 has derived bounds, and is expanded at a "
            "mode. FlyMC-MAP is not run: no bound of a mixture that touches it at a mode is known.",
        ],
    )


def rows_of(name: str, run: Run, drawn_rows: dict[str, float]) -> tuple[float, float]:
    """Return rows an update, mean and standard deviation over trials.

    Of FlyMC these are the bright ones, and of PoissonMH the expected number of drawn ones.
    """
    if name in drawn_rows:
        return drawn_rows[name], 0.0
    return mean_sd((run.stat("n_bright") if name == FLY else run.rows).mean(axis=1))


def at(cost: float, costs: Array, divergences: Array) -> float | None:
    """Return the divergence of a method at some cost, where its draws got there."""
    return float(np.interp(cost, costs, divergences)) if costs[0] <= cost <= costs[-1] else None


def claims(counted: dict[str, tuple[float, float]]) -> list[Claim]:
    """Return what must come out of the rows that methods read."""
    rows = {name: mean for name, (mean, _) in counted.items()}

    def ratio(
        one: str, other: str, low: float | None, high: float | None, chosen: bool = False
    ) -> Claim:
        known = one in PUBLISHED and other in PUBLISHED
        published = f"{PUBLISHED[one][0] / PUBLISHED[other][0]:.2f}" if known else "-"
        what = f"rows, {one} to {other}"
        return Claim(what, published, low, high, rows[one] / rows[other], chosen=chosen)

    return [
        ratio(TFMH, TUNA, None, 1.0),
        ratio(FLY, TUNA, 5.0, 15.0),
        # The walk and λ are solved for both published figures.
        ratio(POISSON, TUNA, 25.0, 80.0, chosen=True),
        ratio(POISSON, FLY, 1.0, None),
        ratio(DERIVED, TUNA, None, 2.0),
    ]


def orders(divergences: dict[str, float | None], when: str, chosen: bool = False) -> list[Claim]:
    """Return which method must be nearer to the posterior than which other."""
    result = []
    for name, than in ((TFMH, TUNA), (FLY, TUNA), (POISSON, TUNA), (SMH_1, TFMH)):
        one, other = divergences[name], divergences[than]
        if one is not None and other is not None:
            what = f"symmetric KL {when}, {name} to {than}"
            result.append(Claim(what, "> 1", 1.0, None, one / other, chosen=chosen))
    return result


def table(
    runs: dict[str, Run],
    counted: dict[str, tuple[float, float]],
    by_rows: dict[str, float | None],
    by_time: dict[str, float | None],
) -> Table:
    """Return the column of table 1 beside ours, and divergences."""
    lines: list[list[Cell]] = []
    for name, run in runs.items():
        lines.append(
            [
                name,
                PUBLISHED.get(name),
                counted[name],
                run.rows_per_update,
                run.acceptance,
                1e6 * run.seconds / run.rows.size,
                by_rows[name],
                by_time[name],
            ]
        )
    head = ["method", "rows, table 1 (± standard error)", "ours (± sd over trials)"]
    head += ["all rows evaluated", "acceptance", "µs an update"]
    head += ["symmetric KL after 10⁷ rows", "after a second"]
    return Table("Rows an update, all on one walk", head, lines)


def shorter_walks(model: pm.Model, x: Array, temperature: float, size: Size, seed: int) -> Table:
    """Return rows and acceptance of the factorised test on shorter walks."""
    c = lipschitz(x) / temperature
    longest = walk_that_reads(PUBLISHED[TUNA][0], c.sum())
    lines: list[list[Cell]] = []
    for share in (1.0, 0.5, 0.25, 0.125):
        step = FactorizedMH(
            model=model,
            centre="start",
            temperature=temperature,
            proposal=RandomWalk(share * longest, covariance="identity", adapt=False),
            full_pass_above=np.inf,
            bounds=Bounds(c, distance),
        )
        run = trials(step, size.of(50, 2_000, 10_000), starts=[START] * 3, seed=seed)
        lines.append([share * longest, run.rows_per_update, run.acceptance])
    caption = f"TFMH on shorter walks; the paper's read {PUBLISHED[TFMH][0]} rows"
    return Table(caption, ["sd of the walk", "rows an update", "acceptance"], lines)


def drawn(runs: dict[str, Run], paths: dict[str, Any], cells: Array) -> list[Panel]:
    """Return figure 3 and appendix J.3: divergences, and densities of the first coordinate."""
    divergences = [
        Panel(
            f"Symmetric KL against {what}",
            what,
            "symmetric KL",
            [curve(name, path[k], path[0]) for name, path in paths.items()],
            log_x=True,
            log_y=True,
        )
        for k, what in ((1, "rows read"), (2, "seconds"))
    ]
    width, middles = EDGES[1] - EDGES[0], 0.5 * (EDGES[1:] + EDGES[:-1])
    truth = curve("posterior", middles, cells.sum(axis=1) / width, "dashed")
    lines = [truth]
    for name in (TFMH, SMH_1, TUNA, FLY, POISSON):
        run = runs[name]
        values = run.values("first")[0][: int(SECONDS * run.rows.size / run.seconds)]
        density = np.histogram(values, EDGES)[0] / (max(values.size, 1) * width)
        lines.append(curve(name, middles, density))
    clouds = [
        Panel(
            f"{name}: draws",
            "θ₁",
            "θ₂",
            [
                curve(
                    "draws", runs[name].values("first")[0], runs[name].values("apart")[0], "points"
                )
            ],
            limits=((-1.5, 2.5), (-3.0, 3.0)),
        )
        for name in (TUNA, FLY, POISSON)
    ]
    marginal = Panel("θ₁ after a second", "θ₁", "density", lines)
    return [*divergences, marginal, *clouds]


if __name__ == "__main__":
    main(experiment)
