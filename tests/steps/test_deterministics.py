import logging

import numpy as np
import pymc as pm
import pytensor
import pytest

from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH, audit, overdispersed_initvals
from pymc_minibatch_mh.steps.deterministics import (
    MIN_LARGE_BYTES,
    large_deterministics,
    names_without_large,
    warn_of_large,
)

#: Enough rows for a deterministic of one value a row to be large, and little else.
ROWS, CATEGORIES = 6_000, 5
ORDERED = pm.distributions.transforms.ordered


def ordinal(hold):
    """Ordinal outcomes with PyMC's default probabilities, and what users like to look at."""
    rng = np.random.default_rng(41)
    x, y = rng.standard_normal(ROWS), rng.integers(0, CATEGORIES, ROWS)
    with pm.Model(coords={"obs": np.arange(ROWS)}) as model:
        slope = pm.Normal("slope")
        start = np.arange(CATEGORIES - 1.0)
        cuts = pm.Normal("cuts", 0.0, 2.0, shape=CATEGORIES - 1, transform=ORDERED, initval=start)
        eta = slope * hold("x", x)
        pm.OrderedLogistic("y", eta=eta, cutpoints=cuts, observed=y)
        pm.Deterministic("p", pm.math.sigmoid(eta), dims="obs")
        pm.Deterministic("both", pm.math.stack([eta, eta**2], axis=-1))
        pm.Deterministic("gaps", cuts[1:] - cuts[:-1])
    return model


def in_array(_name, values):
    return values


def of_a_process():
    """The function of a Gaussian process, which gp.prior() names by itself."""
    rng = np.random.default_rng(42)
    # PyMC evaluates the inputs, for which PyTensor would compile.
    with pytensor.config.change_flags(mode="FAST_COMPILE", cxx=""), pm.Model() as model:
        length = pm.HalfNormal("length", 1.0)
        process = pm.gp.HSGP(m=[8], c=1.5, cov_func=pm.gp.cov.ExpQuad(1, length))
        f = process.prior("f", X=pm.Data("X", rng.uniform(size=(ROWS, 1))))
        pm.Normal("y", f, 1.0, observed=rng.standard_normal(ROWS))
    return model


def found(model):
    large = large_deterministics(model, model.initial_point())
    return {one.name: one.shape for one in large}


@pytest.mark.parametrize("hold", [in_array, pm.Data])
def test_values_of_every_row_are_large(hold):
    assert found(ordinal(hold)) == {"y_probs": (ROWS, CATEGORIES), "p": (ROWS,), "both": (ROWS, 2)}


def test_the_function_of_a_gaussian_process_is_large():
    assert found(of_a_process()) == {"f": (ROWS,)}


def test_the_limit_is_a_gibibyte_for_ten_thousand_draws_of_four_chains():
    count = MIN_LARGE_BYTES // 8
    with pm.Model() as model:
        scale = pm.Normal("scale")
        pm.Deterministic("silent", scale * np.ones(count))
        pm.Deterministic("told", scale * np.ones(count + 1))
        pm.Deterministic("silent too", pm.math.gt(scale * np.ones(8 * count), 0.0))
    assert found(model) == {"told": (count + 1,)}
    assert 8 * (count + 1) * 40_000 == pytest.approx(2**30, rel=1e-3)


@pytest.fixture(scope="module")
def linear():
    """A model with fitted values; its step is built once, with what it said."""
    rng = np.random.default_rng(43)
    x = rng.standard_normal(ROWS)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 10.0)
        pm.Deterministic("double", 2.0 * slope)
        mu = pm.Deterministic("mu", slope * x)
        pm.Normal("y", mu, 1.0, observed=x + rng.standard_normal(ROWS))
    return model


class Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(f"{record.levelname}: {record.getMessage()}")


@pytest.fixture(scope="module")
def step_and_words(linear):
    heard, logger = Heard(), logging.getLogger("pymc")
    logger.addHandler(heard)
    step = PenaltyMH(model=linear)
    logger.removeHandler(heard)
    return step, heard.messages


def test_a_step_names_and_prices_them_before_sampling(step_and_words):
    _, (said,) = step_and_words
    assert said.startswith("WARNING: PenaltyMH: pm.sample() evaluates and stores")
    assert "'mu', 6,000 values, 45.8 MiB." in said
    assert "pm.sample(..., var_names=['slope', 'double'])" in said
    assert "'double'," not in said.split("Leave them out")[0]


@pytest.mark.usefixtures("step_and_words")
def test_a_model_is_warned_of_once(linear, caplog):
    PenaltyMH(model=linear)
    assert caplog.text == ""


def test_what_is_added_later_is_told_as_well(caplog):
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Deterministic("mu", slope * np.ones(ROWS))
        pm.Normal("y", slope, 1.0, observed=np.ones(ROWS))
        for name in ("mu", "new"):
            if name == "new":
                pm.Deterministic("new", slope**2 * np.ones(ROWS))
            caplog.clear()
            warn_of_large(model, model.initial_point(), "PenaltyMH")
            assert f"{name!r}, 6,000 values" in caplog.text
            assert "var_names=['slope'])" in caplog.text


def test_the_names_can_be_pasted(linear, step_and_words):
    step, _ = step_and_words
    names = names_without_large(linear, large_deterministics(linear, linear.initial_point()))
    initvals = overdispersed_initvals(step, 2, random_seed=1)
    trace = sample(linear, step, 200, 200, random_seed=1, initvals=initvals, var_names=names)
    assert set(trace.posterior.data_vars) == {"slope", "double"}
    few = trace.posterior.isel(draw=slice(None, None, 100))
    with linear:
        mu = pm.compute_deterministics(few, var_names=["mu"], progressbar=False)["mu"]
    assert mu.shape == (2, 2, ROWS)
    assert audit(trace, step, pairs=20, random_seed=1).attrs["method"] == "PenaltyMH"
