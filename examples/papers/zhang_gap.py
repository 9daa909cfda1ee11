"""Zhang, Cooper and De Sa (2020), sections 2.1, 2.2 and 3: exactness, acceptance, spectral gap.

Figure 1 and theorem 1: a walk on a line of states that are equally likely, on which approximate
tests drift to one end. Statement 1: factorised acceptance that goes to 0. Theorem 2: the share of
the spectral gap that TunaMH keeps.

The text does not have the rows of figure 1; these are ours. Every row prefers one direction by as
much at every step, a few rows one direction strongly and all others the other one weakly, and
together they prefer none. Stationary distributions are summed exactly from the acceptance
probabilities of the package's tests, and sampled with its steps besides.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pymc as pm

from papers.report import Claim, Curve, Look, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from papers.zhang_laws import batch_decision, gap, poisson_acceptance, rate, stationary, walk
from pymc_minibatch_mh import AustereMH, BarkerPaperMH, CustomProposal, FactorizedMH, TunaPaperMH
from pymc_minibatch_mh.published.barker_paper import growing
from pymc_minibatch_mh.steps.austere import austere_test
from pymc_minibatch_mh.steps.barker import barker_test
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.tuna import chi_for_gap, poisson_test

#: Rows, share of those that prefer the right, and the noise of all: √N times the sd of their sum.
ROWS, SHARE, NOISE, BATCH, CHI = 2_000, 0.02, 10.0, 100, 1.0
SHAPE = np.array([1.0 - SHARE, -SHARE]) / np.sqrt(SHARE * (1.0 - SHARE))
CHANGES, COUNTS = SHAPE * NOISE / ROWS, np.array([SHARE, 1.0 - SHARE]) * ROWS
TUNA, ALL = f"TunaMH, χ = {CHI:g}", "all rows"
#: The χ of figure 1c, which the text does not have, and those sizes M that are sampled.
CHIS, SAMPLED = (0.0, 0.1, 1.0, 10.0), (0.3, 3.0, 10.0)
RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9)
#: Settings of the approximate tests.
TESTS: dict[str, Any] = {
    "Austere, ε = .05": austere_test(0.05, batch_size=BATCH),
    "Austere, ε = .01": austere_test(0.01, batch_size=BATCH),
    "Barker": growing(barker_test(1.0, batch_size=BATCH)),
}

#: How often steps to the right and to the left are accepted.
type Sides = tuple[float, float]


def neighbour(position: Any, new: Any, rng: Any, state: Any, metric: Any, rows: Any) -> float:
    """Propose the next state to the left or to the right."""
    new[0] = position[0] + (1.0 if rng.random() < 0.5 else -1.0)
    return 0.0


def line(x: Array, states: int) -> pm.Model:
    """Return equally likely states 0, 1, ..., rows x_i of which have log-likelihood x_i θ."""
    with pm.Model() as model:
        place = pm.Uniform("place", -0.5, states - 0.5, default_transform=None)
        pm.CustomDist("x", place, logp=lambda x, place: x * place, observed=x)
    return model


def rows_of(changes: Array, counts: Array) -> Array:
    """Return the rows of two kinds."""
    return np.repeat(changes, counts.astype(int))


def shared(model: pm.Model, **settings: Any) -> dict[str, Any]:
    """Return the settings of all steps."""
    return {
        "model": model,
        "centre": "start",
        "taylor_order": 0,
        "full_pass_above": np.inf,
        "proposal": CustomProposal(neighbour),
        **settings,
    }


def steps(model: pm.Model, **settings: Any) -> dict[str, MinibatchStep]:
    """Return the steps of figures 1a and 1b."""
    same = shared(model, **settings)
    return {
        TUNA: TunaPaperMH(chi=CHI, **same),
        "Austere, ε = .05": AustereMH(batch_size=BATCH, epsilon=0.05, **same),
        "Barker": BarkerPaperMH(batch_size=BATCH, sigma=1.0, **same),
        ALL: AustereMH(epsilon=0.0, **same),
    }


def rates(name: str) -> Sides:
    """Return how often a test accepts steps to the right and to the left."""
    if name == TUNA:
        test = poisson_test("paper", CHI)
        right, left = (poisson_acceptance(s * CHANGES, COUNTS, test) for s in (1.0, -1.0))
        return right, left
    if name == ALL:
        return 1.0, 1.0
    right, left = (batch_decision(s * CHANGES, COUNTS, TESTS[name])[0] for s in (1.0, -1.0))
    return right, left


def distance(law: Array, target: Array | None = None) -> float:
    """Return the total variation distance of a distribution from another, or the uniform one."""
    return float(0.5 * np.abs(law - (1.0 / law.size if target is None else target)).sum())


def sampled_laws(run: Run, states: int) -> list[Array]:
    """Return the share of the draws in each state, by trial."""
    places = run.values("place").astype(int)
    return [np.bincount(chain, minlength=states) / chain.size for chain in places]


def sample_lines(size: Size, seed: int) -> dict[int, dict[str, Run]]:
    """Sample lines of several lengths with every step."""
    rng = np.random.default_rng(seed)
    found: dict[int, dict[str, Run]] = {}
    for states in size.of((25,), (25, 100), (25, 50, 100, 200)):
        model = line(rows_of(CHANGES, COUNTS), states)
        # Starts are draws from the target, so that no warm-up is needed.
        starts = [{"place": float(s)} for s in rng.integers(states, size=size.of(2, 4, 8))]
        draws = size.of(200, 2_000, 5_000)
        found[states] = {
            name: trials(step, draws, starts=starts, seed=seed)
            for name, step in steps(model, updates_per_draw=updates(states)).items()
        }
    return found


def drift(found: dict[int, dict[str, Run]], size: Size) -> tuple[list[Claim], Table, list[Panel]]:
    """Return what figures 1a and 1b have: distances from the target against states."""
    grid = np.unique(np.geomspace(2, 200, size.of(5, 40, 40)).astype(int))
    laws = {name: rates(name) for name in (TUNA, *TESTS, ALL)}
    most, sampled = max(found), {}
    curves: list[Curve] = []
    for name, sides in laws.items():
        exact = [distance(stationary(sides, int(k))) for k in grid]
        if name in TESTS:
            curves.append(curve(f"{name}, summed", grid, exact))
        if name in found[most]:
            sampled[name] = {
                k: mean_sd([distance(law) for law in sampled_laws(runs[name], k)])
                for k, runs in found.items()
            }
            means = [sampled[name][k][0] for k in found]
            curves.append(curve(f"{name}, sampled", list(found), means, "points"))
    densities = [
        curve(name, np.arange(most), np.mean(sampled_laws(run, most), axis=0))
        for name, run in found[most].items()
    ]
    panels = [
        Panel(f"Draws on {most} states", "state", "share of the draws", densities),
        Panel("Distance from the target", "states", "total variation", curves, log_x=True),
    ]
    return claims(laws, sampled, most), table(laws, found[most], sampled, most), panels


def claims(laws: dict[str, Sides], sampled: dict[str, Any], most: int) -> list[Claim]:
    """Return what figures 1a and 1b must show."""
    result = []
    for name in TESTS:
        grown = np.diff([distance(stationary(laws[name], k)) for k in (100, 200)])[0]
        what = f"{name}: total variation at 200 states, less that at 100 (summed)"
        result.append(Claim(what, "grows (figure 1b)", 0.0, None, grown))
    what = f"{TUNA}: total variation at 200 states (summed)"
    published = "0, up to Monte Carlo error"
    result.append(Claim(what, published, None, 1e-9, distance(stationary(laws[TUNA], 200))))
    mean, sd = sampled[ALL][most]
    high = (mean + 2.0 * sd) * np.sqrt(1.0 / laws[TUNA][0])
    what = f"{TUNA}: total variation at {most} states (sampled)"
    result.append(Claim(what, published, None, high, *sampled[TUNA][most]))
    return result


def table(
    laws: dict[str, Sides], runs: dict[str, Run], sampled: dict[str, Any], most: int
) -> Table:
    """Return acceptance, rows and distance of every test, and the states that a bias takes."""
    lines = []
    for name, (right, left) in laws.items():
        long = {k: stationary((right, left), k) for k in (200, most)}
        run = runs.get(name)
        lines.append(
            [
                name,
                right,
                left,
                run.rows_per_update[0] / updates(most) if run else None,
                distance(long[200]),
                sampled[name][most] if name in sampled else None,
                distance(np.mean(sampled_laws(run, most), axis=0), long[most]) if run else None,
                divergence(long[200]),
                *(states_for((right, left), least) for least in (0.9, 0.99)),
            ]
        )
    head = ["test", "acceptance to the right", "to the left", "rows an update"]
    head += [
        "total variation at 200 states",
        f"sampled, {most} states, a trial",
        "all draws, from the summed distribution",
    ]
    head += ["KL(distribution, target) at 200"]
    head += ["states for total variation .9 (theorem 1)", "for .99"]
    return Table("A walk on states that are equally likely", head, lines)


def updates(states: int) -> int:
    """Return the updates from draw to draw, which grow as the time of mixing."""
    return max(states**2 // 250, 1)


def divergence(law: Array) -> float:
    """Return the Kullback-Leibler divergence of a distribution from the uniform one."""
    seen = law[law > 0.0]
    return float(seen @ np.log(seen * law.size))


def states_for(sides: Sides, least: float) -> float | None:
    """Return the number of states from which on total variation is at least that."""
    if abs(np.log(sides[0] / sides[1])) < 1e-9:
        return None
    states = 2
    while distance(stationary(sides, states)) < least:
        states = int(states * 1.01) + 1
    return float(states)


def two_sided(size: float) -> tuple[Array, Array]:
    """Return the rows of statement 1: half of them M/N, half of them -M/N."""
    return np.array([1.0, -1.0]) * size / ROWS, np.array([0.5, 0.5]) * ROWS


def acceptance(size: Size, seed: int) -> tuple[list[Claim], Panel]:
    """Return what figure 1c has: acceptance against M, where all rows accept every move."""
    kinds: dict[str, tuple[Any, Callable[..., MinibatchStep]]] = {}
    for chi in CHIS:
        test = poisson_test("paper", chi)
        kinds[f"TunaMH, χ = {chi:g}"] = test, partial(TunaPaperMH, chi=chi)
    # Dashed, as it lies on the line of χ = 0.
    kinds["FactorizedMH"] = poisson_test("factorized"), FactorizedMH
    grid = np.geomspace(0.1, 30.0, size.of(5, 30, 40))
    curves, found, errors = [], {}, []
    for name, (test, step) in kinds.items():
        found[name] = np.array([poisson_acceptance(*two_sided(m), test) for m in grid])
        look: Look = "dashed" if name == "FactorizedMH" else "line"
        curves.append(curve(name, grid, found[name], look))
        if name not in ("FactorizedMH", "TunaMH, χ = 1"):
            continue
        shares = []
        for m in SAMPLED[: size.of(1, 3, 3)]:
            same = shared(line(rows_of(*two_sided(m)), 1_000))
            run = trials(step(**same), size.of(200, 20_000, 50_000), chains=2, seed=seed)
            shares.append(run.acceptance)
            errors.append(run.acceptance - poisson_acceptance(*two_sided(m), test))
        curves.append(curve(f"{name}, sampled", SAMPLED[: len(shares)], shares, "points"))
    factorised = found["FactorizedMH"]
    result = [
        Claim("FactorizedMH: acceptance at M = 30", "→ 0 (figure 1c)", None, 1e-6, factorised[-1]),
        Claim(
            "TunaMH, χ = 1: least acceptance, M from .1 to 30",
            "high (figure 1c)",
            0.5,
            None,
            found["TunaMH, χ = 1"].min(),
        ),
        Claim("acceptance, sampled less summed", "-", -0.01, 0.01, max(errors, key=abs)),
    ]
    title = "Acceptance where all rows accept every move (statement 1)"
    return result, Panel(title, "M", "acceptance", curves, log_x=True)


def gaps(size: Size) -> tuple[Claim, Panel, Table]:
    """Return theorem 2: shares of the spectral gap, with the χ that promises them."""
    states, curves, lines, least = 50, [], [], []
    for tilt in (0.0, 0.1):
        # A tilt moves all rows alike, and the target with them.
        changes = CHANGES + tilt / ROWS
        bound = float(COUNTS @ np.abs(changes))
        sides = float(np.exp(min(tilt, 0.0))), float(np.exp(min(-tilt, 0.0)))
        full = gap(walk(sides, states))
        shares = []
        for ratio in RATIOS[: size.of(2, 5, 5)]:
            chi = chi_for_gap(ratio)
            test = poisson_test("paper", chi)
            kept = [poisson_acceptance(s * changes, COUNTS, test) for s in (1.0, -1.0)]
            shares.append(gap(walk((kept[0], kept[1]), states)) / full)
            lines.append([tilt, ratio, chi, shares[-1], rate(bound, test)])
        least.append(min(np.array(shares) - RATIOS[: len(shares)]))
        curves.append(curve(f"tilt {tilt:g} a step", RATIOS[: len(shares)], shares))
    curves.append(curve("the promise", RATIOS, RATIOS, "dashed"))
    what = "TunaMH: spectral gap, relative to all rows, less the promised κ; least of all"
    claim = Claim(what, "≥ 0 (theorem 2)", 0.0, None, min(least))
    head = ["tilt of the target", "κ", "χ", "ratio of the gaps", "rows, expected"]
    title = "Spectral gaps (theorem 2)"
    panel = Panel(title, "κ, promised", "ratio of the gaps", curves)
    return claim, panel, Table(title, head, lines)


def experiment(size: Size, seed: int) -> Report:
    """Sum all acceptance probabilities, and sample what can be sampled."""
    found = sample_lines(size, seed)
    drifting, tests, panels = drift(found, size)
    accepting, figure = acceptance(size, seed)
    promised, kept, ratios = gaps(size)
    return Report(
        "Zhang, Cooper and De Sa (2020), sections 2 and 3: figure 1, theorems 1 and 2, statement 1",
        [*drifting, *accepting, promised],
        [tests, ratios],
        [*panels, figure, kept],
        ["The rows of figure 1 are ours, because the paper does not give them"],
    )


if __name__ == "__main__":
    main(experiment)
