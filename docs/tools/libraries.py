# /// script
# requires-python = ">=3.12"
# dependencies = [
#     "hssm>=0.5,<0.6",
#     "pymc_marketing>=1.3,<1.4",
#     "pymc-minibatch-mh",
# ]
# [tool.uv.sources]
# pymc-minibatch-mh = { path = "../..", editable = true }
# ///
"""Models of PyMC-Marketing, fitted by their own ``fit`` with a step of this package, and of HSSM.

``python -m uv run docs/tools/libraries.py`` prints a line for each, in an environment of its own,
and fails if a model is not served, or refused, as docs/howto/libraries.md says.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import arviz as az
import hssm
import numpy as np
import pandas as pd
import pymc as pm
from pymc_marketing import clv
from pymc_marketing.customer_choice import MixedLogit
from pymc_marketing.mmm import MMM, GeometricAdstock, LogisticSaturation

from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.errors import MinibatchError

CUSTOMERS, DRAWS, TUNE = 20_000, 1_000, 500
RNG = np.random.default_rng(3)


def purchases() -> pd.DataFrame:
    """Frequency, recency and age of customers who buy at their own rates until they leave."""
    age = RNG.uniform(20.0, 60.0, CUSTOMERS)
    until = np.minimum(age, RNG.exponential(40.0, CUSTOMERS))
    count = RNG.poisson(RNG.gamma(0.9, 0.125, CUSTOMERS) * until)
    last = until * RNG.beta(np.maximum(count, 1), 1) * (count > 0)
    mean = RNG.gamma(6.0 * np.maximum(count, 1), 1.0 / RNG.gamma(3.0, 1 / 12, CUSTOMERS))
    return pd.DataFrame(
        {
            "customer_id": np.arange(CUSTOMERS), "frequency": count, "recency": last, "T": age,
            "monetary_value": mean / np.maximum(count, 1),
        }
    )  # fmt: skip


def choices() -> tuple[MixedLogit, dict[str, Any]]:
    """Mixed logit of three alternatives, with price coefficients of 100 persons."""
    price, quality = RNG.normal(size=(2, CUSTOMERS, 3))
    person = RNG.integers(100, size=CUSTOMERS)
    slope = -1.0 + 0.5 * RNG.normal(size=100)[person, None]
    utility = [0.2, 0.3, 0.0] + slope * price + 0.5 * quality + RNG.gumbel(size=(CUSTOMERS, 3))
    names = np.array(["a", "b", "c"])
    columns = {f"{x}_p": price[:, k] for k, x in enumerate(names)}
    columns |= {f"{x}_q": quality[:, k] for k, x in enumerate(names)}
    frame = pd.DataFrame({"choice": names[utility.argmax(1)], "who": person, **columns})
    equations = [f"{x} ~ {x}_p + {x}_q |  | {x}_p" for x in names]
    return MixedLogit(frame, equations, "choice", ["p", "q"], group_id="who"), {}


def of_customers(kind: Callable[[], Any], buyers: bool = False) -> tuple[Any, dict[str, Any]]:
    """Model of customers, or of those who came back, and its data."""
    frame = purchases()
    return kind(), {"data": frame[frame["frequency"] > 0] if buyers else frame}


class DriftDiffusion:
    """Analytical drift diffusion of HSSM with the methods of the other models: 3,000 responses."""

    def build_model(self) -> None:
        """Build the model."""
        theta = [0.5, 1.5, 0.5, 0.3]
        data = hssm.simulate_data(model="ddm", theta=theta, size=3_000, random_state=1)
        analytical = {"model": "ddm", "loglik_kind": "analytical", "p_outlier": 0.05}
        self.model = hssm.HSSM(data=data, **analytical).pymc_model

    def fit(self, **settings: Any) -> Any:
        """Sample."""
        with self.model:
            return pm.sample(**settings)


def media_mix(regions: int = 40, weeks: int = 150) -> tuple[MMM, dict[str, Any]]:
    """Media mix model of sales by week and region, and its data."""
    spent = RNG.gamma(1.0, 1.0, (regions * weeks, 2))
    sales = 3.0 + (spent / (1.0 + spent)) @ [1.0, 0.5] + 0.3 * RNG.normal(size=len(spent))
    week = np.tile(pd.date_range("2022-01-03", periods=weeks, freq="W-MON"), regions)
    frame = pd.DataFrame({"week": week, "region": np.repeat(np.arange(regions), weeks)})
    frame[["tv", "web"]] = spent
    model = MMM(
        date_column="week", channel_columns=["tv", "web"], target_column="sales",
        dims=("region",), adstock=GeometricAdstock(l_max=8), saturation=LogisticSaturation(),
    )  # fmt: skip
    return model, {"X": frame, "y": pd.Series(sales, name="sales")}


#: Models, and the steps that serve them.
MODELS: dict[str, tuple[Callable[[], tuple[Any, dict[str, Any]]], Callable[[], Any]]] = {
    "BetaGeoModel": (lambda: of_customers(clv.BetaGeoModel), TunaMH),
    "ModifiedBetaGeoModel": (lambda: of_customers(clv.ModifiedBetaGeoModel), TunaMH),
    "GammaGammaModel": (lambda: of_customers(clv.GammaGammaModel, buyers=True), TunaMH),
    "MixedLogit": (choices, TunaMH),
    "ParetoNBDModel": (lambda: of_customers(clv.ParetoNBDModel), PenaltyMH),
    "DriftDiffusion": (lambda: (DriftDiffusion(), {}), PenaltyMH),
}
#: Models that ``TunaMH`` refuses, and the cause that its error names.
REFUSED: dict[str, tuple[Callable[[], tuple[Any, dict[str, Any]]], str]] = {
    "MMM": (media_mix, "the observations lie inside Convolve1d"),
    "DriftDiffusion by TunaMH": (lambda: (DriftDiffusion(), {}), "a condition on the parameters"),
}


def refusal(name: str) -> tuple[bool, str]:
    """Whether a model is refused for its cause, and a line about it."""
    build, cause = REFUSED[name]
    model, data = build()
    model.build_model(**data)
    began = time.process_time()
    try:
        TunaMH(model=model.model)
    except MinibatchError as error:
        seconds = time.process_time() - began
        return cause in str(error), f"{name}: refused in {seconds:.1f} CPU s: {error}"
    return False, f"{name}: served"


def outcome(name: str) -> tuple[bool, str]:
    """Whether a model is served, and a line about it."""
    build, method = MODELS[name]
    model, data = build()
    model.build_model(**data)
    began = time.process_time()
    try:
        with model.model:
            step = method()
    except MinibatchError as error:
        return False, f"{name}: refused in {time.process_time() - began:.1f} CPU s: {error}"
    settings: dict[str, Any] = {
        "draws": DRAWS,
        "tune": TUNE,
        "chains": 2,
        "cores": 1,
        "random_seed": 1,
    }
    names = [v.name for v in model.model.free_RVs]
    if isinstance(model, clv.ParetoNBDModel):
        # Its own fit looks for a maximum, unless it is told to sample.
        settings |= {"method": "mcmc"}
    if isinstance(model, MixedLogit):
        # Its own fit samples by NumPyro, and stores the utilities of all rows at each draw.
        settings |= {"nuts_sampler": "pymc", "var_names": names}
    trace = model.fit(**data, step=step, progressbar=False, **settings)
    rows = float(trace["sample_stats"]["n_obs"].mean()) / step.target.source.n_rows
    worst = max(float(x.max()) for x in az.rhat(trace, var_names=names).data_vars.values())
    seconds = time.process_time() - began
    line = f"{name}: {rows:.1%} of the rows, R-hat {worst:.3f}, {seconds:.0f} CPU s"
    return worst < 1.05, line


def main() -> None:
    """Print a line for each model, or for those that are named."""
    names = sys.argv[1:] or [*MODELS, *REFUSED]
    results = [outcome(name) if name in MODELS else refusal(name) for name in names]
    for _, line in results:
        print(line)
    sys.exit(not all(right for right, _ in results))


if __name__ == "__main__":
    main()
