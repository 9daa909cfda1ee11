"""Effective draws where posteriors are skewed or have tails, and draws beside exact moments.

    OMP_NUM_THREADS=1 PYTHONPATH=.:tests:examples python -m benchmarks.tails [model ...]
        [--seeds 3] [--draws 6000] [--against]

`TunaMH`, one chain of each seed, without PyMC's loop; seconds are of the processor. ESS is the
smallest bulk ESS over all coordinates. With `--against`, means, standard deviations and .005
quantiles of four chains of 4,000 draws are compared with those by quadrature: printed is the
largest distance in Monte Carlo errors, and the ESS of ten times as many draws. Nothing here is a
test, and nothing is stored.
"""

import argparse
import logging
import time
from collections.abc import Callable
from functools import partial

import arviz as az
import bambi
import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from scipy.special import expit, logsumexp
from scipy.stats import halfcauchy, halfnorm, norm

import pymc_minibatch_mh as mb
from benchmarks import models
from benchmarks.hierarchies import rare_events
from flights import late_flights
from pymc_minibatch_mh.chain.chain import Chain

ROWS, GROUPS, SCHOOL_ROWS = 20_000, 12, 1_250
HEADS = (
    "model", "preparation, s", "order", "acceptance", "rows/update", "ESS/update", "slowest",
    "µs/update", "ESS/s", "distances", "ESS/update of ten times the draws",
)  # fmt: skip
TUNE, LONGER, CHAINS, COMPARED, LOW = 1_500, 10, 4, 4_000, 0.005
SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SPREADS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
Array = np.ndarray
#: Mean, standard deviation and .005 quantile of a variable, NaN if not known.
Moments = dict[str, tuple[float, float, float]]


def columns(rows: int = ROWS) -> tuple[np.random.Generator, Array]:
    """Return a generator, and a standard normal predictor."""
    rng = np.random.default_rng(11)
    return rng, rng.standard_normal(rows)


def background() -> pm.Model:
    """Counts with a background rate near 0."""
    rng, x = columns()
    y = rng.poisson(0.005 + np.exp(0.5 + 0.7 * x))
    with pm.Model() as model:
        u, b = pm.HalfNormal("u", 1.0), pm.Normal("b", 0.0, 2.0, shape=2)
        pm.Poisson("y", u + pm.math.exp(b[0] + b[1] * x), observed=y)
    return model


def zero_inflation() -> pm.Model:
    """Counts without more zeros than Poisson counts have."""
    rng, x = columns()
    y = rng.poisson(np.exp(1.0 + 0.3 * x))
    with pm.Model() as model:
        share, b = pm.Beta("share", 1.0, 1.0), pm.Normal("b", 0.0, 2.0, shape=2)
        pm.ZeroInflatedPoisson("y", share, pm.math.exp(b[0] + b[1] * x), observed=y)
    return model


def lapses() -> pm.Model:
    """Answers of a person who never lapses."""
    rng, x = columns()
    y = (rng.random(ROWS) < expit(0.3 + 2.0 * x)).astype(int)
    with pm.Model() as model:
        b, lapse = pm.Normal("b", 0.0, 2.0, shape=2), pm.Beta("lapse", 1.0, 10.0)
        p = 0.5 * lapse + (1.0 - lapse) * pm.math.sigmoid(b[0] + b[1] * x)
        pm.Bernoulli("y", p=p, observed=y)
    return model


def poisson_counts() -> pm.Model:
    """A negative binomial on Poisson counts."""
    rng, x = columns()
    y = rng.poisson(np.exp(1.0 + 0.3 * x))
    with pm.Model() as model:
        alpha, b = pm.HalfCauchy("alpha", 2.5), pm.Normal("b", 0.0, 2.0, shape=2)
        pm.Deterministic("kappa", 1.0 / alpha)
        pm.NegativeBinomial("y", mu=pm.math.exp(b[0] + b[1] * x), alpha=alpha, observed=y)
    return model


def grouped_counts() -> tuple[Array, Array]:
    """Return groups and counts that do not depend on them."""
    rng = np.random.default_rng(12)
    return rng.integers(0, GROUPS, ROWS), rng.poisson(np.exp(0.5), ROWS)


def equal_groups() -> pm.Model:
    """Counts of 12 groups that do not differ."""
    group, y = grouped_counts()
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
        a = pm.Normal("a", mu, tau, shape=GROUPS)
        pm.Poisson("y", pm.math.exp(a[group]), observed=y)
    return model


def with_means(means: Array, errors: Array, rows: int, rng: np.random.Generator) -> Array:
    """Return normal rows of groups, with given means and standard errors of these."""
    noise = rng.standard_normal((means.size, rows))
    noise -= noise.mean(axis=1, keepdims=True)
    return (means[:, None] + errors[:, None] * np.sqrt(rows) * noise).ravel()


def schools() -> pm.Model:
    """Eight schools of 1,250 rows each."""
    y = with_means(SCHOOLS, SPREADS, SCHOOL_ROWS, np.random.default_rng(13))
    school = np.repeat(np.arange(8), SCHOOL_ROWS)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        theta = pm.Normal("theta", mu, tau, shape=8)
        noise = SPREADS[school] * np.sqrt(SCHOOL_ROWS)
        pm.Normal("y", theta[school], noise, observed=y)
    return model


def funnel() -> pm.Model:
    """Neal's funnel of ten dimensions, with 1,250 rows for each effect, of standard error 1."""
    y = with_means(np.zeros(9), np.ones(9), SCHOOL_ROWS, np.random.default_rng(14))
    place = np.repeat(np.arange(9), SCHOOL_ROWS)
    with pm.Model() as model:
        v = pm.Normal("v", 0.0, 3.0)
        x = pm.Normal("x", 0.0, pm.math.exp(0.5 * v), shape=9)
        pm.Normal("y", x[place], np.sqrt(SCHOOL_ROWS), observed=y)
    return model


def bambi_counts(slope: float = 0.3) -> pm.Model:
    """Bambi's negative binomial with levels and slopes of 30 groups, on Poisson counts."""
    rng, rows, groups = np.random.default_rng(311), 30_000, 30
    x, group = rng.uniform(-1.0, 1.0, rows), rng.integers(0, groups, rows)
    level, slopes = 0.5 * rng.standard_normal(groups), slope * rng.standard_normal(groups)
    k = rng.poisson(np.exp(0.3 + level[group] + (0.6 + slopes[group]) * x))
    data = pd.DataFrame({"x": x, "g": group.astype(str), "k": k})
    built = bambi.Model("k ~ x + (x|g)", data, family="negativebinomial")
    built.build()
    return built.backend.model


def gaussian_process() -> pm.Model:
    """Counts with a smooth log-rate in 20 basis functions, without an intercept."""
    rng, rows = np.random.default_rng(15), 40_000
    x = rng.uniform(-1.0, 1.0, rows)
    with pm.Model() as model:
        eta, ell = pm.Exponential("eta", 1.0), pm.InverseGamma("ell", 5.0, 3.0)
        curve = pm.gp.HSGP(m=[20], c=1.5, cov_func=eta**2 * pm.gp.cov.ExpQuad(1, ell))
        rate = pm.math.exp(curve.prior("f", X=x[:, None]))
        pm.Poisson("y", rate, observed=rng.poisson(np.exp(0.8 * np.sin(3.0 * x))))
    return model


def horseshoe(size: int, rows: int = 40_000) -> pm.Model:
    """A regression whose coefficients have one scale each."""
    rng = np.random.default_rng(16)
    x, true = rng.standard_normal((rows, size)), np.zeros(size)
    true[:5] = 1.0, -0.7, 0.5, 0.3, -0.2
    y = x @ true + rng.standard_normal(rows)
    with pm.Model() as model:
        tau, lam = pm.HalfCauchy("tau", 1.0), pm.HalfCauchy("lam", 1.0, shape=size)
        b = pm.Normal("b", 0.0, tau * lam, shape=size)
        pm.Normal("y", x @ b, pm.HalfNormal("sigma", 2.0), observed=y)
    return model


def flights() -> pm.Model:
    """Late departures by 27 coefficients."""
    data = late_flights()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=data.X.shape[1])
        pm.Bernoulli("late", logit_p=data.X @ beta, observed=data.late)
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    "events-309": partial(rare_events, 300.0),
    "events-2946": partial(rare_events, 3_000.0),
    "flights": flights,
    "background": background,
    "zero-inflation": zero_inflation,
    "lapses": lapses,
    "poisson-counts": poisson_counts,
    "equal-groups": equal_groups,
    "schools": schools,
    "funnel": funnel,
    "bambi": bambi_counts,
    "bambi-equal-slopes": partial(bambi_counts, 0.0),
    "gaussian-process": gaussian_process,
    "horseshoe-40": partial(horseshoe, 40),
    "horseshoe-60": partial(horseshoe, 60),
    "dense-50": partial(models.logistic, 100_000, 50),
}


def of_one(values: Array, logs: Array) -> tuple[float, float, float]:
    """Moments of a variable from log masses at its values."""
    order = np.argsort(values)
    values, mass = values[order], np.exp(logs[order] - logsumexp(logs))
    mean, below = float(mass @ values), np.cumsum(mass) - 0.5 * mass
    sd, low = float(np.sqrt(mass @ (values - mean) ** 2)), np.interp(LOW, below, values)
    return mean, sd, float(low)


def of_mixture(logs: Array, means: Array, squares: Array) -> tuple[float, float, float]:
    """Moments of a variable from those at points with log masses."""
    mass = np.exp(logs - logsumexp(logs))
    mean = float(mass @ means)
    return mean, float(np.sqrt(mass @ squares - mean**2)), np.nan


def near_end(name: str, build: Callable, odd: str, natural: Callable, grid: Array) -> Moments:
    """Moments by PyMC's log-density, with coefficients integrated out at each point of a grid.

    The grid is even in the unconstrained variable `odd`. With 20,000 rows, 49 points around the
    conditional mode integrate out two coefficients.
    """
    model, b, h = build(), np.array([0.5, 0.5]), 1e-4
    log_density, gradient = model.compile_logp(), model.compile_dlogp()
    last = model.value_vars[-1].name == "b"
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    pairs = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    log_weights = np.log(np.outer(weights, weights).ravel()) + 0.5 * (pairs**2).sum(axis=1)

    def slope(e: float, b: Array) -> Array:
        whole = gradient({odd: np.array(e), "b": b})
        return whole[1:] if last else whole[:2]

    lines = []
    for e in grid:
        for _ in range(50):
            ends = [[slope(e, b + side * d) for d in h * np.eye(2)] for side in (1, -1)]
            bend = (np.array(ends[0]) - ends[1]) / (2.0 * h)
            step = np.linalg.solve(-bend, slope(e, b))
            b = b + step * min(1.0, 0.3 / np.abs(step).max())
            if np.abs(step).max() < 1e-5:
                break
        factor = np.linalg.cholesky(np.linalg.inv(-bend))
        places = b + pairs @ factor.T
        logs = log_weights + [float(log_density({odd: np.array(e), "b": x})) for x in places]
        logs += np.log(np.diag(factor)).sum()
        mass = np.exp(logs - logsumexp(logs))
        lines.append([logsumexp(logs), *(mass @ places), *(mass @ places**2)])
    logs, *parts = np.array(lines).T
    found = {f"b[{k}]": of_mixture(logs, parts[k], parts[2 + k]) for k in (0, 1)}
    return found | {name: of_one(natural(grid), logs)}


def normal_effects(means: Array, errors: Array, tau: Array, logs: Array, spread: float) -> list:
    """Log masses at scales, and moments of mu ~ N(0, spread²) and of the first effect there."""
    lines = []
    for t, log_prior in zip(tau, logs, strict=True):
        weights = 1.0 / (errors**2 + t**2)
        v = 1.0 / (weights.sum() + spread**-2.0)
        m = v * (weights @ means)
        fit = 0.5 * (np.log(v) + np.log(weights).sum() + m * m / v - weights @ means**2)
        shrunk = errors[0] ** 2 * weights[0]
        effect = shrunk * m + (1.0 - shrunk) * means[0]
        own = t * t * shrunk + shrunk**2 * v + effect**2
        lines.append([log_prior + fit, m, v + m * m, effect, own])
    return list(np.array(lines).T)


def exact_schools() -> Moments:
    """Moments of eight schools."""
    log_tau = np.linspace(-9.0, 6.0, 3_001)
    logs = halfcauchy.logpdf(np.exp(log_tau), scale=5.0) + log_tau
    logs, m, mm, a, aa = normal_effects(SCHOOLS, SPREADS, np.exp(log_tau), logs, 5.0)
    mixed = {"mu": of_mixture(logs, m, mm), "theta[0]": of_mixture(logs, a, aa)}
    return mixed | {"tau": of_one(np.exp(log_tau), logs)}


def exact_funnel() -> Moments:
    """Moments of the funnel."""
    v = np.linspace(-16.0, 8.0, 3_001)
    zero, one, logs = np.zeros(9), np.ones(9), norm.logpdf(v, scale=3.0)
    logs, _, _, a, aa = normal_effects(zero, one, np.exp(0.5 * v), logs, 1e-9)
    return {"v": of_one(v, logs), "x[0]": of_mixture(logs, a, aa)}


def exact_groups() -> Moments:
    """Moments of groups that do not differ, whose effects are integrated out one by one."""
    group, y = grouped_counts()
    sums, counts = (np.bincount(group, w, GROUPS) for w in (y, np.ones(ROWS)))
    z = np.linspace(-7.0, 7.0, 1_001)
    lines = []
    for log_tau in np.linspace(-16.0, -0.5, 156):
        tau = np.exp(log_tau)
        for mu in np.linspace(0.5 - 0.15 - tau, 0.5 + 0.15 + tau, 81):
            line = mu + tau * z
            rows = sums[:, None] * line - counts[:, None] * np.exp(line) - 0.5 * z**2
            total = logsumexp(rows, axis=1)
            first = np.exp(rows[0] - total[0])
            prior = halfnorm.logpdf(tau) + log_tau + norm.logpdf(mu, scale=2.0)
            volume = np.log(0.3 + 2.0 * tau)
            log_mass = prior + total.sum() + volume
            lines.append([tau, mu, log_mass, first @ line, first @ line**2])
    tau, mu, logs, a, aa = np.array(lines).T
    return {
        "tau": of_one(tau, logs), "mu": of_one(mu, logs), "a[0]": of_mixture(logs, a, aa)
    }  # fmt: skip


#: Exact moments of models.
EXACT: dict[str, Callable[[], Moments]] = {
    "background": partial(
        near_end, "u", background, "u_log__", np.exp, np.linspace(-13.0, -2.0, 61)
    ),
    "zero-inflation": partial(
        near_end, "share", zero_inflation, "share_logodds__", expit, np.linspace(4.0, 15.0, 61)
    ),
    "lapses": partial(
        near_end, "lapse", lapses, "lapse_logodds__", expit, np.linspace(-15.0, -3.0, 61)
    ),
    "poisson-counts": partial(
        near_end, "kappa", poisson_counts, "alpha_log__", lambda x: np.exp(-x),
        np.linspace(2.5, 14.0, 61),
    ),
    "equal-groups": exact_groups,
    "schools": exact_schools,
    "funnel": exact_funnel,
}  # fmt: skip


def distances(trace: xr.DataTree, exact: Moments) -> dict[str, float]:
    """Largest distance of mean, sd and .005 quantile from exact ones, in Monte Carlo errors."""
    found = {}
    for name, moments in exact.items():
        variable, _, k = name.partition("[")
        draws = trace.posterior[variable].to_numpy()
        draws = draws[..., int(k[:-1])] if k else draws
        seen = draws.mean(), draws.std(), np.quantile(draws, LOW)
        errors = (
            az.mcse(draws, method="mean"), az.mcse(draws, method="sd"),
            az.mcse(draws, method="quantile", prob=LOW),
        )  # fmt: skip
        away = np.abs(np.subtract(seen, moments)) / np.array(errors, dtype=float)
        found[name] = float(np.nanmax(away))
    return found


def run(step: mb.TunaMH, seed: int, draws: int) -> tuple[float, float, float, str, float]:
    """Acceptance, rows and ESS an update, the slowest coordinate, and seconds of the processor."""
    chain = Chain(step.program, np.random.default_rng(seed), True)
    chain.advance(TUNE)
    chain.stop_adapting()
    begin = time.process_time()
    drawn = chain.advance(draws)
    seconds = (time.process_time() - begin) / draws
    ess = [float(az.ess(x[None])) / draws for x in drawn.positions.T]
    name = step.target.factorization.coordinate_names[int(np.argmin(ess))]
    accept, rows = (float(drawn.counts[x].mean()) for x in ("accept", "n_obs"))
    return accept, rows, min(ess), name, seconds


def line_of(name: str, seeds: int, draws: int, *, against: bool) -> list[str]:
    """Cells of a line of the table."""
    model, begin = MODELS[name](), time.process_time()
    try:
        with model:
            step = mb.TunaMH()
        _ = step.plan.skew_map, step.plan.heavy_tails
    except mb.errors.MinibatchError as error:
        prepared = time.process_time() - begin
        return [name, f"{prepared:.1f}", f"{type(error).__name__}: {error}"]
    prepared = time.process_time() - begin
    runs = [run(step, seed, draws) for seed in range(seeds)]
    accepts, rows, ess, names, seconds = zip(*runs, strict=True)
    cells = [name, f"{prepared:.1f}", str(step.plan.reference.order)]
    cells += [" ".join(f"{x:.2f}" for x in accepts), " ".join(f"{x:.1f}" for x in rows)]
    cells += [" ".join(f"{x:.2f}" for x in ess), f"`{names[int(np.argmin(ess))]}`"]
    cells += [" ".join(f"{1e6 * x:.0f}" for x in seconds)]
    cells += [" ".join(f"{e / s:,.0f}" for e, s in zip(ess, seconds, strict=True))]
    if against and name in EXACT:
        trace = mb.sample(
            step, COMPARED, tune=TUNE, chains=CHAINS, cores=1, random_seed=99, quiet=True
        )
        found = distances(trace, EXACT[name]())
        cells.append(", ".join(f"{k} {x:.1f}" for k, x in found.items()))
        cells.append(f"{run(step, seeds, LONGER * draws)[2]:.2f}")
    return cells


def main() -> None:
    """Print the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="*", help=f"of {', '.join(MODELS)}; all by default")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=6_000)
    parser.add_argument("--against", action="store_true")
    asked = parser.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}", flush=True)
    for name in asked.model or MODELS:
        cells = line_of(name, asked.seeds, asked.draws, against=asked.against)
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
