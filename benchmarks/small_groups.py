"""Effects of small groups, integrated out: groups an update, effective draws, seconds, effects.

``PYTHONPATH=. python -m benchmarks.small_groups [PROBLEM ...] [--rival]`` prints a line of a table
for each problem, by default of all. A problem is ``FAMILY,ROWS,GROUPS,TAU``, of which the family
``rare`` is ``logit`` with one event in 137 rows, and ``slopes`` has two effects of each group, with
the correlation .8. One chain; seconds are
those of the processor, and figures medians of ``--repeats`` runs. With ``--rival`` the same model
also has its effects accepted one at a time, once. With ``--parquet FOLDER`` rows are in a Parquet
file there, sorted by group, such as ``logit,2000000,100000,.8``.
"""

import argparse
import logging
import time
from dataclasses import dataclass
from pathlib import Path

import arviz as az
import numpy as np
import pyarrow as pa
import pymc as pm
from pyarrow import parquet as pq
from scipy.special import expit

from pymc_minibatch_mh import Rows, TunaMH, sample

TUNE, RIVAL_DRAWS, EFFECT_DRAWS = 500, 1_000, 50
PROBLEMS = (
    "logit,100000,15000,.8",
    "logit,100000,15000,.2",
    "rare,100000,15000,.8",
    "poisson,100000,15000,.8",
    "student,100000,15000,.8",
    "logit,100000,50000,.8",
    "logit,10000,1500,.8",
    "logit,10000,1500,.2",
    "slopes,3000,500,.8",
)
SHARED = ["level", "b", "tau"]
#: Logits of a typical row.
LEVELS = {"rare": -5.337}


@dataclass(frozen=True)
class Problem:
    """Family, numbers of rows and groups, and standard deviation of the effects."""

    family: str
    rows: int
    groups: int
    tau: float
    folder: str = ""

    @classmethod
    def named(cls, text, folder=""):
        """Problem of a name such as ``logit,100000,15000,.8``."""
        family, rows, groups, tau = text.split(",")
        return cls(family, int(rows), int(groups), float(tau), folder)

    def stored(self, columns):
        """Columns in a Parquet file, sorted by group."""
        order, x = np.argsort(columns["g"], kind="stable"), columns.pop("x")
        columns |= {f"x{k}": x[:, k].astype(np.float32) for k in range(x.shape[1])}
        table = pa.table({name: values[order] for name, values in columns.items()})
        path = Path(self.folder) / "small_groups.parquet"
        pq.write_table(table, path, row_group_size=100_000)
        rows = Rows.from_parquet(path, {"g": "g", "y": "y", "x": [f"x{k}" for k in range(4)]})
        return {name: rows.data(name) for name in ("g", "y", "x")}

    def model(self):
        """Regression with four slopes, and an effect of each group."""
        rng = np.random.default_rng(1)
        g, x = rng.integers(0, self.groups, self.rows), rng.normal(size=(self.rows, 4))
        effect = self.tau * rng.normal(size=self.groups)
        if self.family == "slopes":
            return self.model_of_slopes(rng, g, x, effect)
        eta = LEVELS.get(self.family, -0.5) + x @ [0.3, 0.2, -0.2, 0.1] + effect[g]
        if self.family in ("logit", "rare"):
            y = rng.random(self.rows) < expit(eta)
        elif self.family == "poisson":
            y = rng.poisson(np.exp(eta))
        else:
            y = eta + rng.standard_t(4.0, self.rows)
        if self.folder:
            g, y, x = self.stored({"g": g, "y": y.astype(float), "x": x}).values()
        with pm.Model() as model:
            level, b = pm.Normal("level", 0.0, 2.0), pm.Normal("b", 0.0, 2.0, shape=4)
            tau = pm.HalfNormal("tau", 1.0)
            z = pm.Normal("z", 0.0, 1.0, shape=self.groups)
            mean = level + x @ b + tau * z[g]
            if self.family in ("logit", "rare"):
                pm.Bernoulli("y", logit_p=mean, observed=y)
            elif self.family == "poisson":
                pm.Poisson("y", pm.math.exp(mean), observed=y)
            else:
                pm.StudentT("y", nu=4.0, mu=mean, sigma=1.0, observed=y)
        return model

    def model_of_slopes(self, rng, g, x, effect):
        """Logistic regression with an effect of each group, and a slope that goes with it."""
        slope = 0.8 * effect + 0.6 * self.tau * rng.normal(size=self.groups)
        eta = -0.5 + x @ [0.3, 0.2, -0.2, 0.1] + effect[g] + slope[g] * x[:, 0]
        with pm.Model() as model:
            level, b = pm.Normal("level", 0.0, 2.0, shape=2), pm.Normal("b", 0.0, 2.0, shape=3)
            sd = pm.HalfNormal.dist(1.0, shape=2)
            tau, _, _ = pm.LKJCholeskyCov("tau", n=2, eta=2.0, sd_dist=sd)
            z = pm.MvNormal("z", level, chol=tau, shape=(self.groups, 2))
            mean = x[:, 1:] @ b + z[g, 0] + z[g, 1] * x[:, 0]
            pm.Bernoulli("y", logit_p=mean, observed=rng.random(self.rows) < expit(eta))
        return model


def timed(step, draws, tune=TUNE, **settings):
    """Trace of one chain, and seconds."""
    began = time.process_time()
    trace = sample(
        step, draws, tune=tune, chains=1, progressbar=False, compute_convergence_checks=False,
        **settings,
    )  # fmt: skip
    return trace, time.process_time() - began


def least_ess(trace):
    """Least effective sample size an update of what all rows share."""
    ess = az.ess(trace, var_names=SHARED)
    return min(float(ess[name].min()) for name in SHARED) / trace.posterior.sizes["draw"]


def seconds_of_effects(step):
    """Seconds of a draw of all effects given the rest."""
    # The first run prepares what all draws share.
    both = [timed(step, EFFECT_DRAWS, 100, effects=flag)[1] for flag in (True, True, False)]
    return (both[1] - both[2]) / EFFECT_DRAWS


def measure(problem, seed, draws):
    """Step, and figures of one run by the name of their column."""
    model = problem.model()
    began = time.process_time()
    step = TunaMH(model=model, blocks="groups")
    built = time.process_time() - began
    trace, seconds = timed(step, draws, random_seed=seed, effects=False, var_names=SHARED)
    update, ess = seconds / (draws + TUNE), least_ess(trace)
    stats = trace.sample_stats
    return step, {
        "set-up, s": built,
        "groups an update": float(stats["n_obs"].mean()),
        "accepted": float(stats["accept"].mean()),
        "ESS an update": ess,
        "µs an update": 1e6 * update,
        "ESS/s": ess / update,
        "ms for all effects": 1e3 * seconds_of_effects(step),
    }


def of_rival(problem):
    """Figures of the same model with effects accepted one at a time."""
    model = problem.model()
    began = time.process_time()
    step = TunaMH(model=model, blocks=True)
    built = time.process_time() - began
    trace, seconds = timed(step, RIVAL_DRAWS, random_seed=1, var_names=SHARED)
    ess = least_ess(trace)
    return {
        "rival: set-up, s": built,
        "rows an update": float(trace.sample_stats["n_obs"].mean()),
        "rival: ESS an update": ess,
        "rival: ESS/s": ess * (RIVAL_DRAWS + TUNE) / seconds,
    }


def line(problem, repeats, draws, rival):
    """Cells of a line, medians over runs."""
    runs = [measure(problem, seed, draws) for seed in range(repeats)]
    choice = runs[0][0].plan.choice
    cells = {
        "model": problem.family,
        "rows": f"{problem.rows:,}",
        "groups": f"{problem.groups:,}",
        "τ": f"{problem.tau:g}",
        "nodes": f"{choice.n_nodes}",
        "error": f"{choice.error:.0e}",
    }
    medians = {key: np.median([one[key] for _, one in runs]) for key in runs[0][1]}
    medians |= of_rival(problem) if rival else {}
    return cells | {key: f"{x:.3g}" if x < 1_000 else f"{x:,.0f}" for key, x in medians.items()}


def main():
    """Print the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pymc_minibatch_mh").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", nargs="*", default=PROBLEMS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--draws", type=int, default=50_000)
    parser.add_argument("--rival", action="store_true")
    parser.add_argument("--parquet", default="", metavar="FOLDER")
    asked = parser.parse_args()
    for k, name in enumerate(asked.problem):
        cells = line(Problem.named(name, asked.parquet), asked.repeats, asked.draws, asked.rival)
        if k == 0:
            print(f"| {' | '.join(cells)} |\n|{' --- |' * len(cells)}", flush=True)
        print(f"| {' | '.join(cells.values())} |", flush=True)


if __name__ == "__main__":
    main()
