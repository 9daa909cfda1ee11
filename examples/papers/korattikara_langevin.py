"""Korattikara, Chen and Welling (2014), section 6.4: Langevin dynamics with and without a test.

Figure 5: the posterior of a linear regression with one weight and an L1 prior, its gradient, and
the draws of stochastic gradient Langevin dynamics, uncorrected and decided by the sequential test.

Settings that the text does not have: the predictors are uniform on (-1, 1). With λ = 3 and
λ₀ = 4950 this puts the mode just above 0, where the prior has its kink, as the published figure
shows it; normal predictors of the same variance give the same picture. Chains start near the mode.
"""

from typing import Any

import numpy as np
import pymc as pm
from scipy.stats import kstest

from papers.report import Cell, Claim, Curve, Panel, Report, Table, curve, mean_sd
from papers.runner import Array, Run, Size, main, trials
from pymc_minibatch_mh import AustereMH, Langevin, TunaMH
from pymc_minibatch_mh.steps.base import MinibatchStep

ROWS, PRECISION, SHRINKAGE, VARIANCE = 10_000, 3.0, 4950.0, 5e-6
BATCH, START, BURN_IN = 500, 0.005, 500
UNCORRECTED, CORRECTED = "Langevin, uncorrected", "Langevin, ε = 0.5"
#: Mean of Kolmogorov's distribution: expected distance of n independent draws, times √n.
KOLMOGOROV = np.sqrt(0.5 * np.pi) * np.log(2.0)
OURS, OURS_DRIFT = "TunaMH, default settings", "TunaMH, Langevin moves along the expansion"


class Posterior:
    """Density, its gradient and distribution function, from sums over all rows."""

    def __init__(self, x: Array, y: Array) -> None:
        self.precision = PRECISION * float(x @ x)
        self.pull = PRECISION * float(x @ y)
        self.grid = np.linspace(-0.03, 0.08, 110_001)
        log_density = self.pull * self.grid - 0.5 * self.precision * self.grid**2
        density = np.exp(log_density - SHRINKAGE * np.abs(self.grid))
        self.density = density / np.trapezoid(density, self.grid)
        self.below = np.cumsum(self.density) * (self.grid[1] - self.grid[0])

    def gradient(self, theta: Array) -> Array:
        """Return the gradient of the log-density."""
        return self.pull - self.precision * theta - SHRINKAGE * np.sign(theta)

    def distance(self, draws: Array) -> float:
        """Return the largest distance of the draws' distribution function from this one."""
        exact = lambda theta: np.interp(theta, self.grid, self.below)  # noqa: E731
        return float(kstest(draws.ravel(), exact).statistic)


def data(seed: int) -> tuple[Array, Array]:
    """Return predictors and outcomes."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, ROWS)
    return x, 0.5 * x + rng.normal(0.0, PRECISION**-0.5, ROWS)


def regression(x: Array, y: Array) -> pm.Model:
    """Return the model."""
    with pm.Model() as model:
        theta = pm.Laplace("theta", 0.0, 1.0 / SHRINKAGE)
        pm.Normal("y", theta * x, tau=PRECISION, observed=y)
    return model


def uncorrected(x: Array, y: Array, draws: int, chains: int, seed: int) -> Array:
    """Return draws of the dynamics that accept every move, shape (chains, draws)."""
    found = np.empty((chains, draws))
    for chain, rng in enumerate(np.random.default_rng(seed).spawn(chains)):
        theta, noise = START, rng.normal(0.0, np.sqrt(VARIANCE), draws)
        for t in range(draws):
            rows = rng.choice(ROWS, BATCH, replace=False, shuffle=False)
            slope = PRECISION * x[rows] @ (y[rows] - theta * x[rows]) * ROWS / BATCH
            theta += 0.5 * VARIANCE * (slope - SHRINKAGE * np.sign(theta)) + noise[t]
            found[chain, t] = theta
    return found


def steps(model: pm.Model) -> dict[str, MinibatchStep]:
    """Return the corrected dynamics at three levels of the test, and ours."""
    moves: dict[str, Any] = {
        "step_size": np.sqrt(VARIANCE),
        "preconditioner": "identity",
        "adapt": False,
    }
    shared: dict[str, Any] = {
        "model": model,
        "batch_size": BATCH,
        "centre": "start",
        "full_pass_above": np.inf,
        "proposal": Langevin(batch_size=BATCH, **moves),
    }
    return {
        CORRECTED: AustereMH(epsilon=0.5, **shared),
        "Langevin, ε = 0.05": AustereMH(epsilon=0.05, **shared),
        "Langevin, ε = 0": AustereMH(epsilon=0.0, **shared),
        OURS: TunaMH(model=model),
        OURS_DRIFT: TunaMH(model=model, proposal=Langevin(batch_size=0, **moves)),
    }


def experiment(size: Size, seed: int) -> Report:
    """Run the dynamics and ours, and compare their draws with the posterior."""
    x, y = data(seed)
    posterior = Posterior(x, y)
    chains, fewer = size.of(2, 10, 10), size.of(600, 5_000, 20_000)
    found = {UNCORRECTED: uncorrected(x, y, fewer, chains, seed)[:, BURN_IN:]}
    runs: dict[str, Run] = {}
    for name, step in steps(regression(x, y)).items():
        starts = [{"theta": np.array(START)}] * chains
        tune = size.of(100, 500, 500) if name == OURS else 0
        # What is claimed of it is about as small as the noise of fewer draws.
        draws = size.of(600, 20_000, 100_000) if name == CORRECTED else fewer
        runs[name] = trials(step, draws, starts=starts, tune=tune, seed=seed)
        found[name] = runs[name].values("theta")[:, BURN_IN:]
    return Report(
        "Korattikara, Chen and Welling (2014), section 6.4: figure 5",
        claims(posterior, found, runs),
        [table(posterior, found, runs)],
        drawn(posterior, found),
        ["The predictors are uniform on (-1, 1), because the paper does not give them"],
    )


def claims(posterior: Posterior, found: dict[str, Array], runs: dict[str, Run]) -> list[Claim]:
    """Return what must come out."""
    far = {name: posterior.distance(draws) for name, draws in found.items()}
    what = "largest distance of the distribution function"
    read = {name: run.rows_per_update for name, run in runs.items()}
    looks = mean_sd(runs[CORRECTED].stat("n_looks").mean(axis=1))
    return [
        Claim(f"{UNCORRECTED}: {what}", "visibly off", 0.1, None, far[UNCORRECTED]),
        # Its chain was made longer after a short one was inconclusive.
        Claim(f"{CORRECTED}: {what}", "hardly any", None, 0.03, far[CORRECTED], chosen=True),
        Claim(f"{CORRECTED}: looks a test", "1", 1.0, 1.0, *looks),
        Claim(f"{OURS}: {what}", "-", None, far[CORRECTED], far[OURS]),
        Claim(f"{OURS}: rows an update", "-", None, 0.0, *read[OURS]),
        Claim(f"{OURS_DRIFT}: rows an update", "-", None, 0.0, *read[OURS_DRIFT]),
    ]


def table(posterior: Posterior, found: dict[str, Array], runs: dict[str, Run]) -> Table:
    """Return what each chain reads, accepts and is off by."""
    lines: list[list[Cell]] = []
    for name, draws in found.items():
        run = runs.get(name)
        effective = None if run is None else run.ess("theta")
        lines.append(
            [
                name,
                posterior.distance(draws),
                None if effective is None else float(KOLMOGOROV / np.sqrt(effective)),
                float((draws < 0.0).mean()),
                float(BATCH) if run is None else run.rows_per_update,
                1.0 if run is None else run.acceptance,
                None if effective is None else effective / draws.size,
            ]
        )
    exact = float(np.interp(0.0, posterior.grid, posterior.below))
    lines.append(["the posterior", 0.0, None, exact, None, None, None])
    head = ["chain", "distance", "distance of as many exact draws", "share below 0"]
    head += ["rows an update", "accepted", "effective draws a draw"]
    return Table("Draws of the weight against the posterior", head, lines)


def drawn(posterior: Posterior, found: dict[str, Array]) -> list[Panel]:
    """Return the four panels of figure 5, and ours."""
    shown = (posterior.grid >= -0.02) & (posterior.grid <= 0.06)
    grid, density = posterior.grid[shown], posterior.density[shown]
    slope = curve("gradient", grid, posterior.gradient(grid))
    panels = [
        Panel("Posterior", "θ", "density", [curve("density", grid, density)]),
        Panel("Gradient of its logarithm", "θ", "gradient", [slope]),
    ]
    edges = np.linspace(-0.02, 0.06, 81)
    exact = curve("posterior", grid, density, "dashed")
    for name in (UNCORRECTED, CORRECTED, OURS):
        heights = np.histogram(found[name], edges)[0] / found[name].size / np.diff(edges)
        drawn_here: list[Curve] = [curve("draws", 0.5 * (edges[1:] + edges[:-1]), heights), exact]
        panels.append(Panel(name, "θ", "density", drawn_here))
    return panels


if __name__ == "__main__":
    main(experiment)
