"""What an audit costs, and how good its estimates are, as printed in docs/after.md.

    PYTHONPATH=.:tests:examples python benchmarks/audit.py bias|cost|sizes

Nothing here is a test: machines differ and are shared.
"""

import argparse
import logging
import resource
import time

import numpy as np
import pymc as pm

import pymc_minibatch_mh as mb
from benchmarks.models import logistic
from diagnostics.audit.rare import measured_bias, rare_rows
from pymc_minibatch_mh.diagnostics.audit import MAX_PAIRS

DRAWS, TUNE, PAIRS = 100_000, 1_000, 600
#: Tests from useless to exact.
CASES = (
    ("AustereMH", {"epsilon": 0.3, "batch_size": 5, "taylor_order": 1}),
    ("AustereMH", {"epsilon": 0.3, "batch_size": 20, "taylor_order": 1}),
    ("AustereMH", {"epsilon": 0.1, "batch_size": 30, "taylor_order": 1}),
    ("BarkerPaperMH", {"batch_size": 20, "taylor_order": 1}),
    ("TunaMH", {"taylor_order": 1}),
)
ROWS, SIZE = 1_000_000, 3
#: Coefficients of regressions whose traces are altered, audits of each error, and the errors:
#: shifts of a mean in sd, factors of an sd, and correlations that a trace has lost.
SIZES, AUDITS = (3, 10, 30), 10
SHIFTS, FACTORS, LOST = (0.25, 0.5, 1.0, 2.0), (1.25, 1.5, 2.0, 3.0), (0.5, 0.7, 0.9, 0.97)


def sampled(model: pm.Model, step: object, draws: int) -> object:
    """Sample one chain in this process."""
    with model:
        return pm.sample(
            draws=draws, tune=TUNE, chains=2, cores=1, step=step, random_seed=3,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip


def bias() -> None:
    """Estimated bias of the posterior's mean and sd beside that by quadrature, in sd of draws."""
    model = rare_rows()
    print("step | moment | estimated | measured")
    for name, settings in CASES:
        step = getattr(mb, name)(model=model, **settings)
        trace = sampled(model, step, DRAWS)
        found = mb.audit(trace, step, PAIRS, 4, model=model)
        there, errors = measured_bias(trace)
        own, noise = (found["moments"][field].to_numpy()[:, 0] for field in ("bias", "bias_mcse"))
        written = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        for k, moment in enumerate(("mean", "sd")):
            print(
                f"{name}({written}) | {moment} | {own[k]:+.4f} ± {noise[k]:.4f} | "
                f"{there[k]:+.4f} ± {errors[k]:.4f}",
                flush=True,
            )


def cost() -> None:
    """Seconds and memory of 200 pairs with a million rows."""
    model = logistic(ROWS, SIZE)
    print("step | seconds | growth of the peak memory, MiB | largest relative bias")
    for name in ("TunaMH", "BarkerMinibatchMH"):
        step = getattr(mb, name)(model=model)
        trace = sampled(model, step, 2_000)
        mb.audit(trace, step, 2, 4, model=model)
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        found = mb.audit(trace, step, 200, 4, model=model)
        seconds = time.perf_counter() - began
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
        worst = float(np.abs(found["moments"]["bias"]).max())
        print(f"{name} | {seconds:.0f} | {growth:.0f} | {worst:.4f}", flush=True)


def regression(size: int, correlation: float) -> pm.Model:
    """Logistic regression whose first two coefficients have about such a posterior correlation."""
    rng = np.random.default_rng(size)
    X = rng.standard_normal((5_000, size))
    X[:, 1] = -correlation * X[:, 0] + np.sqrt(1.0 - correlation**2) * X[:, 1]
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=size)
        pm.Bernoulli("y", logit_p=X @ beta, observed=rng.random(5_000) < 0.5)
    return model


def sizes() -> None:
    """Share of audits of the usual number of pairs that tell an error in a trace, by its size."""
    print("coefficients | error | audits that fail")

    def told(trace: object, step: object, change: object) -> str:
        failed = 0
        for seed in range(AUDITS):
            other = trace.copy(deep=True)
            beta = other["posterior"]["beta"].to_numpy()
            change(beta, np.random.default_rng(seed))
            found = mb.audit(other, step, MAX_PAIRS, seed)
            failed += bool((found["verdict"].sel(check=["drift", "acceptance"]) == "fail").any())
        return f"{failed} of {AUDITS}"

    def shift(by: float) -> object:
        def change(beta: np.ndarray, _: object) -> None:
            beta[..., 0] += by * beta[..., 0].std()

        return change

    def widen(by: float) -> object:
        def change(beta: np.ndarray, _: object) -> None:
            beta[..., 0] += (by - 1.0) * (beta[..., 0] - beta[..., 0].mean())

        return change

    def shuffle(beta: np.ndarray, rng: np.random.Generator) -> None:
        beta[..., 0] = rng.permutation(beta[..., 0].ravel()).reshape(beta.shape[:2])

    for size in SIZES:
        for correlation in (0.0, *LOST):
            model = regression(size, correlation)
            step = mb.TunaMH(model=model)
            trace = sampled(model, step, 4_000)
            if correlation:
                words = f"correlation {correlation} lost"
                print(f"{size} | {words} | {told(trace, step, shuffle)}", flush=True)
                continue
            print(f"{size} | none | {told(trace, step, lambda *_: None)}", flush=True)
            for by in SHIFTS:
                print(f"{size} | mean off by {by} sd | {told(trace, step, shift(by))}", flush=True)
            for by in FACTORS:
                print(f"{size} | sd times {by} | {told(trace, step, widen(by))}", flush=True)


if __name__ == "__main__":
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("bias", "cost", "sizes"))
    {"bias": bias, "cost": cost, "sizes": sizes}[parser.parse_args().what]()
