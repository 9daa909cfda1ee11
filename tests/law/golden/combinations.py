"""Ways to sample, of which every kind of model, method, order, proposal and storage is one."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pymc as pm
import zarr

from custom_proposal import student
from custom_test import decide_batch, sample_size
from data.stored_rows import in_npy
from helpers.models import FAMILIES, GROUPED, MODELS, bounded, small_groups
from helpers.zoo import METHODS, PAPERS, RANGED
from pymc_minibatch_mh import (
    Bounds,
    CustomProposal,
    CustomTestMH,
    Langevin,
    Laplace,
    RandomWalk,
    Rows,
)

ROWS = 2_000
STEPS = METHODS | RANGED | PAPERS | {"CustomTestMH": CustomTestMH}
Arrays = dict[str, np.ndarray]


def of_family(name: str) -> Callable[[Path], pm.Model]:
    """Return what writes a model of the shared ones, on few rows."""
    models = FAMILIES | MODELS | {"bounded": bounded}
    return lambda folder: models[name](ROWS)


def hierarchy(folder: Path, *, centred: bool) -> pm.Model:
    """Group effects with an unknown scale, in either spelling."""
    rng = np.random.default_rng(31)
    group = rng.integers(0, 6, ROWS)
    y = rng.standard_normal(6)[group] + rng.standard_normal(ROWS)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 2.0)
        if centred:
            effect = pm.Normal("effect", mu, tau, shape=6)
        else:
            effect = mu + tau * pm.Normal("z", 0.0, 1.0, shape=6)
        pm.StudentT("y", nu=5, mu=effect[group], sigma=1.0, observed=y)
    return model


def of_groups(name: str) -> Callable[[Path], pm.Model]:
    """Return what writes a model whose effects move each by itself."""
    return lambda folder: GROUPED[name]()


def few_persons(folder: Path) -> pm.Model:
    """Write a model of small groups, but with few of them."""
    return small_groups(16, 1_000)


def influential(folder: Path) -> pm.Model:
    """Counts of which two rows of high exposure are read at every update."""
    rng = np.random.default_rng(32)
    x, exposure = rng.standard_normal(ROWS), np.ones(ROWS)
    exposure[:2] = 3_000.0
    y = rng.poisson(exposure * np.exp(0.2 + 0.3 * x))
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        pm.Poisson("y", mu=exposure * pm.math.exp(a + b * x), observed=y)
    return model


def on_rows(folder: Path, *, store: Callable[[Path, Arrays], Rows]) -> pm.Model:
    """Write a logistic regression whose rows are stored."""
    rng = np.random.default_rng(33)
    x = rng.standard_normal(9_000)
    y = (rng.random(9_000) < 1.0 / (1.0 + np.exp(x - 0.5))).astype(np.int8)
    rows = store(folder, {"x": x, "y": y})
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=a + b * rows.data("x"), observed=rows.data("y"))
    return model


def chunks(folder: Path, arrays: Arrays) -> Rows:
    """Store the arrays in a group of Zarr's."""
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for name, values in arrays.items():
        group.create_array(name, shape=values.shape, dtype=values.dtype, chunks=2_048)[:] = values
    return Rows.from_zarr(folder / "rows.zarr")


def table(folder: Path, arrays: Arrays) -> Rows:
    """Store the arrays as columns of a Parquet file."""
    pq.write_table(pa.table(arrays), folder / "rows.parquet", row_group_size=3_000)
    return Rows.from_parquet(folder / "rows.parquet", {name: name for name in arrays})


def blocks(folder: Path, arrays: Arrays) -> Rows:
    """Leave the arrays to be computed by Dask."""
    return Rows.from_dask(**{name: da.from_array(x, chunks=3_500) for name, x in arrays.items()})


def arrays(folder: Path, arrays: Arrays) -> Rows:
    """Keep the arrays where they are."""
    return Rows(**arrays)


def slopes_of_logistic(centre: Arrays) -> Bounds:
    """Bound the rows of the logistic regression by their norms, by hand."""
    rng = np.random.default_rng(11)
    X = np.column_stack([np.ones(ROWS), rng.standard_normal((ROWS, 2))])
    return Bounds(np.linalg.norm(X, axis=1), distance)


def distance(here, there):
    return np.sqrt(((here - there) ** 2).sum())


@dataclass(frozen=True)
class Combination:
    """One way to sample."""

    #: Writes the model, given a folder for the rows that it stores.
    model: Callable[[Path], pm.Model]
    #: Name of the step's class.
    method: str
    #: Settings of the step; a `partial` is one that is made with it, as making it compiles it.
    settings: dict[str, Any] = field(default_factory=dict)
    #: Whether ``pm.sample`` makes the draws, and not the package's own driver.
    pymc: bool = False
    #: How far draws of another processor may be, relative and absolute.
    rounding: float = 1e-9

    def step(self, model: pm.Model) -> Any:
        """Build the step."""
        made = {k: v() if isinstance(v, partial) else v for k, v in self.settings.items()}
        return STEPS[self.method](model=model, **made)


def _way(model: str | Callable, method: str, *, pymc: bool = False, **settings):
    written = of_family(model) if isinstance(model, str) else model
    by_differences = model in (centred, noncentred) or settings.get("blocks")
    rounding = OF_DIFFERENCES if by_differences else 1e-9
    return Combination(written, method, settings, pymc, rounding)


centred, noncentred = (partial(hierarchy, centred=flag) for flag in (True, False))
#: Proposals of hierarchies are shaped by differences (step 1e-2) of differences (step 1e-6), which
#: leave 2e-16/1e-8, eight digits; some tens of that.
OF_DIFFERENCES = 1e-6
by_custom_test = {
    "sample_size": sample_size,
    "decide_batch": decide_batch,
    "numbers": [0.5, 50.0],
    "controls": "noise",
}

COMBINATIONS = {
    # Methods.
    "tuna": _way("logistic", "TunaMH"),
    "tuna in PyMC": _way("logistic", "TunaMH", pymc=True),
    "tuna as published": _way("poisson", "TunaPaperMH", chi=1.0),
    "tuna with delayed acceptance": _way("poisson", "TunaMH", delayed_acceptance=True),
    "tuna by bounds of a user": _way(
        "logistic", "TunaMH", bounds=slopes_of_logistic, taylor_order=0, coordinates="model"
    ),
    "scalable": _way("negative_binomial", "ScalableSubsamplingMH", pymc=True),
    "factorized": _way("poisson", "FactorizedMH", taylor_order=1),
    "firefly": _way("logistic", "FireflyMH", q=0.3),
    "firefly in PyMC": _way("logistic", "FireflyMH", q=0.3, pymc=True),
    "firefly, untuned": _way("logistic", "FireflyMH", bound="untuned", taylor_order=0),
    "poisson": _way("bounded", "PoissonMH"),
    "barker": _way("logistic", "BarkerMinibatchMH", taylor_order=1, pymc=True),
    "barker that grows": _way("student", "BarkerPaperMH", error_bound="novak", taylor_order=0),
    "barker with a skewness": _way("poisson", "BarkerMinibatchMH", skew_correction=True, sigma=1.0),
    "penalty": _way("two_likelihoods", "PenaltyMH"),
    "penalty in PyMC": _way("two_likelihoods", "PenaltyMH", taylor_order=0, pymc=True),
    "austere": _way("poisson", "AustereMH", taylor_order=1, epsilon=0.05),
    "austere of raw differences": _way("logistic", "AustereMH", taylor_order=0, pymc=True),
    "confidence": _way("logistic", "ConfidenceMH", taylor_order=1),
    "confidence by a scan": _way("poisson", "ConfidenceScanMH", taylor_order=0),
    "a test of a user": _way("logistic", "CustomTestMH", taylor_order=1, **by_custom_test),
    # Models.
    "centred hierarchy": _way(centred, "TunaMH"),
    "noncentred hierarchy": _way(noncentred, "TunaMH"),
    "noncentred hierarchy in its own coordinates": _way(
        noncentred, "TunaMH", coordinates="model", pymc=True
    ),
    "hierarchy, barker": _way(noncentred, "BarkerMinibatchMH"),
    "crossed effects by elements": _way(of_groups("logistic"), "TunaMH", blocks=True),
    "slopes by elements": _way(of_groups("slopes"), "FactorizedMH", blocks=True),
    "small groups": _way(few_persons, "TunaMH", blocks="groups"),
    "shape near infinity": _way("student_free", "TunaMH"),
    "softmax": _way("softmax", "TunaMH"),
    "mixture": _way("normal_mixture", "TunaMH", pymc=True),
    "zero-inflated": _way("zero_inflated_poisson", "TunaMH"),
    "censored": _way("censored_weibull", "PenaltyMH"),
    "ordered": _way("ordered_logistic", "ScalableSubsamplingMH"),
    "kinks": _way("laplace", "TunaMH", taylor_order=0),
    "influential rows": _way(influential, "TunaMH", taylor_order=1),
    "influential rows, batches": _way(influential, "PenaltyMH", taylor_order=1),
    # Proposals, temperatures, weights.
    "random walk": _way("poisson", "TunaMH", proposal=RandomWalk(scale=0.5)),
    "walk from the start": _way(
        "poisson",
        "BarkerMinibatchMH",
        centre="start",
        proposal=RandomWalk(scale=0.1, covariance="identity"),
    ),
    "laplace": _way("poisson", "PenaltyMH", proposal=Laplace(rho=(0.0, 0.5)), pymc=True),
    "langevin": _way("poisson", "TunaMH", proposal=Langevin(step_size=0.5, batch_size=500)),
    "a move of a user": _way(
        "logistic", "TunaMH", proposal=partial(CustomProposal, student, state=[1.0])
    ),
    "tempered": _way("logistic", "TunaMH", temperature=20.0, updates_per_draw=3),
    "annealed": _way(
        "poisson", "PenaltyMH", temperature=[(0, 50.0), (60, 1.0)], taylor_order=0, pymc=True
    ),
    "weighted": _way("poisson", "TunaMH", weights=np.linspace(0.0, 2.0, ROWS)),
    # Rows.
    "rows in memory": _way(partial(on_rows, store=arrays), "TunaMH", taylor_order=1),
    "rows in files": _way(partial(on_rows, store=in_npy), "TunaMH", taylor_order=1, pymc=True),
    "rows in files, batches": _way(partial(on_rows, store=in_npy), "BarkerMinibatchMH"),
    "rows in chunks": _way(partial(on_rows, store=chunks), "FactorizedMH"),
    "rows in a table": _way(partial(on_rows, store=table), "PenaltyMH", taylor_order=1),
    "rows of a cluster": _way(partial(on_rows, store=blocks), "ScalableSubsamplingMH"),
}
