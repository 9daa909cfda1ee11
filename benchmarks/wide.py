"""Wide models: set-up, candidates, rows and effective draws a second, with the copy and without.

``PYTHONPATH=.:tests:examples python -m benchmarks.wide [MODEL] [OPTIONS]`` prints a
line for a model, or for all of the page on wide models. A model is ``FAMILY N D``, or
``covertype``, ``digits`` or ``flights`` of the folder that ``PYMC_MINIBATCH_MH_DATA`` names. With
``--stored`` the rows of a model are files. One chain, by `sample`, one thread.
"""

import argparse
import logging
import tempfile
import time
from functools import partial
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
from scipy.special import expit

from benchmarks import tables
from flights import late_flights
from papers.data import sevens_and_nines
from pymc_minibatch_mh import Rows, TunaMH, sample
from pymc_minibatch_mh.bounds import bounds_pass

#: Updates of warm-up.
TUNE = 1_500
#: Rows of Covertype.
COVERTYPE = 581_012
#: family, N, d
MODELS = [
    *(("logistic", 100_000, d) for d in (31, 50, 75, 100, 150)),
    *((family, 1_000_000, 100) for family in ("logistic", "student", "poisson")),
    ("logistic", 1_000_000, 200),
]


def on_disk(**arrays):
    """Return what stands for arrays that are written to files."""
    folder = Path(tempfile.mkdtemp())
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    rows = Rows.from_npy(**{name: folder / f"{name}.npy" for name in arrays})
    return [rows.data(name) for name in arrays]


def model_of(family, n, d, held=lambda **arrays: arrays.values()):
    """Return a regression on dense normal predictors, in single precision, with an intercept."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n, d), dtype=np.float32)
    x[:, 0] = 1.0
    eta = x @ (rng.normal(size=d) / np.sqrt(d)).astype(np.float32)
    y = {
        "logistic": lambda: (rng.random(n) < expit(eta)).astype(np.int8),
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "student": lambda: eta + rng.standard_t(4.0, n),
    }[family]()
    x, y = held(x=x, y=y)
    with pm.Model() as model:
        predictor = pm.math.dot(x, pm.Normal("b", 0.0, 2.5, shape=d))
        if family == "logistic":
            pm.Bernoulli("y", logit_p=predictor, observed=y)
        elif family == "poisson":
            pm.Poisson("y", pm.math.exp(predictor), observed=y)
        else:
            sigma = pm.HalfNormal("sigma", 2.0)
            pm.StudentT("y", nu=4.0, mu=predictor, sigma=sigma, observed=y)
    return model


def covertype():
    """Return whether a forest is of lodgepole pine, by ten measures, its area and its soil."""
    x, pine = tables.covertype(COVERTYPE)
    return x[:, 1:], pine


def digits():
    """Return fifty components of digits, of which nines are told from sevens."""
    found = sevens_and_nines()
    return found.X, found.y == 1


def flights():
    """Return the flights of the quickstart, and whether they were late."""
    found = late_flights()
    return found.X[:, 1:], found.late == 1


TABLES = {"covertype": covertype, "digits": digits, "flights": flights}


def of_table(name):
    """Return a logistic regression on a table, with an intercept."""
    x, y = TABLES[name]()
    x = np.column_stack([np.ones(len(x)), x]).astype(np.float32)
    with pm.Model() as model:
        predictor = pm.math.dot(x, pm.Normal("b", 0.0, 2.5, shape=x.shape[1]))
        pm.Bernoulli("y", logit_p=predictor, observed=y.astype(np.int8))
    return model


def measure(name, model, options):
    """Print what a chain of a new step takes."""
    began = time.perf_counter()
    with model:
        step = TunaMH()
    prepared = time.perf_counter() - began
    pilot = sample(step, 100, tune=TUNE, chains=1, random_seed=1, model=model)
    a_draw = float(pilot.sample_stats["perf_counter_diff"].mean())
    draws = min(max(int(options.seconds / a_draw), 400), options.draws)
    trace = sample(step, draws, tune=TUNE, chains=1, random_seed=2, model=model)
    stats = trace.sample_stats
    names = "n_obs", "n_candidates", "accept"
    mean = {key: float(stats[key].mean()) if key in stats else 0.0 for key in names}
    seconds = float(stats["perf_counter_diff"].sum())
    ess = float(min(az.ess(trace)[key].min() for key in trace.posterior.data_vars))
    print(
        f"{name}: set-up {prepared:.1f} s, candidates {mean['n_candidates']:.1f}, rows "
        f"{mean['n_obs']:.1f}, acceptance {mean['accept']:.2f}, {1e6 * seconds / draws:.1f} µs, "
        f"on all rows {float(stats['full_pass'].mean()):.1%}, ESS/s {ess / seconds:,.0f}",
        flush=True,
    )


def run(name, made, options):
    """Print the figures of one model."""
    if options.without:
        narrow, bounds_pass.NARROW = bounds_pass.NARROW, np.inf
        measure(f"{name}, without a copy", made(), options)
        bounds_pass.NARROW = narrow
    measure(name, made(), options)


def main():
    """Print the figures of the models that are asked for."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="*")
    parser.add_argument("--draws", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=6.0, help="of draws, about")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--stored", action="store_true")
    options = parser.parse_args()
    if len(options.model) == 1:
        (table,) = options.model
        run(table, lambda: of_table(table), options)
        return
    models = MODELS
    if options.model:
        family, n, d = options.model
        models = [(family, int(float(n)), int(d))]
    for family, n, d in models:
        made = partial(model_of, family, n, d, **({"held": on_disk} if options.stored else {}))
        name = f"{family}, N = {n:,}, d = {d}" + (", stored" if options.stored else "")
        run(name, made, options)


if __name__ == "__main__":
    main()
