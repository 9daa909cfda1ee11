"""Signs of the coefficients of simplexes: found, held against the others, and what is drawn."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from every import every
from pymc_minibatch_mh import TunaMH, explain
from pymc_minibatch_mh import sample as sample_in_blocks
from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.likelihood.split import split
from pymc_minibatch_mh.plan.maps import MARGIN, with_products
from pymc_minibatch_mh.reference.target import Target

ROWS = 3_000
CHI = np.array([0.15, 0.6, 0.25])


def monotonic(*sizes, rows=ROWS, noise=1.0):
    """Return a model with a monotonic effect of each size."""
    rng = np.random.default_rng(83)
    levels = rng.integers(0, 3, (len(sizes), rows))
    effects = [b * CHI.cumsum()[level] for b, level in zip(sizes, levels, strict=True)]
    y = 1.0 + np.sum(effects, axis=0) + noise * rng.standard_normal(rows)
    with pm.Model() as model:
        mean = pm.Normal("a", 0.0, 2.0)
        for k, level in enumerate(levels):
            chi = pm.Dirichlet(f"chi{k}", np.ones(3))
            mean = mean + (pm.Normal(f"b{k}", 0.0, 2.0) * chi.cumsum())[level]
        pm.Normal("y", mean, pm.HalfNormal("sigma", 2.0), observed=y)
    return model


def found(model):
    parts = split(model, model.value_vars)
    return with_products(parts, parts, model.initial_point(), None)


@every("sizes", [(1.5,), (-1.5,), (1.5, -1.0)])
def test_signs_are_those_of_the_data(sizes):
    signs = [one.sign for one in found(monotonic(*sizes)).coordinates.maps]
    assert signs == [float(np.sign(b)) for b in sizes]


@every("size", [0.0, 0.1, -0.1])
def test_a_sign_that_data_do_not_tell_is_not_fixed(size):
    coordinates = found(monotonic(size)).coordinates
    assert coordinates.maps == ()
    ((name, reason),) = coordinates.refused
    assert name == "chi0"
    assert "whose sign the data do not tell: the log-density at" in reason
    assert float(reason.split("lower by ")[1].split(",")[0]) < MARGIN


def test_a_search_without_a_mode_names_the_products_that_rows_keep(monkeypatch):
    def fails(*_):
        raise ModeError("there is none")

    monkeypatch.setattr(Target, "expansion", fails)
    with pytest.raises(ModeError, match=r"none .*'chi0' is multiplied by a coefficient whose sign"):
        TunaMH(model=monotonic(0.0))


def test_many_effects_are_turned_one_at_a_time():
    sizes = (-1.5, 1.2, -1.8)
    signs = [one.sign for one in found(monotonic(*sizes)).coordinates.maps]
    assert signs == [float(np.sign(b)) for b in sizes]


def test_a_sign_without_a_mode_is_not_ruled_out(monkeypatch):
    sought = Target.mode_of_few

    def fails(self, start, rows, tolerance):
        if self.split.coordinates.maps[0].sign > 0.0:
            raise ModeError("there is none")
        return sought(self, start, rows, tolerance)

    monkeypatch.setattr(Target, "mode_of_few", fails)
    coordinates = found(monotonic(-1.5)).coordinates
    assert coordinates.maps == ()
    assert "with one of its signs no mode was found" in dict(coordinates.refused)["chi0"]


@cache
def two_levels():
    """Return two means that differ by what may be nearly zero, and the data."""
    rng = np.random.default_rng(7)
    level = np.repeat([0, 1], ROWS // 2)
    y = -0.8 - 0.02 * level + rng.standard_normal(ROWS)
    with pm.Model() as model:
        chi = pm.Dirichlet("chi", np.array([2.0, 1.5]))
        effect = pm.Normal("b", 0.0, 2.0) * chi.cumsum()[level]
        pm.Normal("y", effect, 1.0, observed=y)
    return model, y[: ROWS // 2], y[ROWS // 2 :]


def quadrature():
    """Return mean and standard deviation of b and of chi[0], on a grid of products."""
    _, first, second = two_levels()
    t, u = np.meshgrid(np.linspace(0.55, 1.05, 801), np.linspace(1e-5, 0.35, 1601), indexing="ij")
    total = t + u
    log_density = -0.5 * (total / 2.0) ** 2 - np.log(total)
    log_density += np.log(t / total) + 0.5 * np.log(u / total)
    log_density -= 0.5 * first.size * (first.mean() + t) ** 2
    log_density -= 0.5 * second.size * (second.mean() + total) ** 2
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    moments = {}
    for name, x in {"b": -total, "chi": t / total}.items():
        mean = (weight * x).sum()
        moments[name] = mean, np.sqrt((weight * (x - mean) ** 2).sum())
    return moments


def test_draws_at_the_end_of_the_support_are_those_of_the_posterior():
    model, *_ = two_levels()
    with model:
        trace = sample_in_blocks(
            TunaMH(rng=5), 20_000, tune=1_000, chains=2, random_seed=4, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert float(trace.sample_stats["certified"].mean()) == 1.0
    assert float(trace.sample_stats["n_obs"].mean()) < 0.02 * ROWS
    draws = {"b": trace.posterior["b"].values, "chi": trace.posterior["chi"].values[..., 0]}
    for name, (mean, sd) in quadrature().items():
        assert draws[name].mean() == pytest.approx(mean, abs=0.06 * sd)
        assert draws[name].std() == pytest.approx(sd, rel=0.06)


def test_explanations_name_the_products():
    with two_levels()[0]:
        explained = explain(TunaMH(rng=5), draws=100, tune=50, random_seed=1)
    (mapped,) = explained.coordinates
    assert (mapped.name, mapped.words, mapped.refused) == ("chi", "-b × chi", "")
    assert "moved as -b × chi, and mapped back" in str(explained)
