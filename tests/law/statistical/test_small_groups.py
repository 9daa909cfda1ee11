"""Effects of small groups, and all else, have the posterior that quadrature and NUTS find."""

import json
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pytest

from helpers.tiers import fast
from helpers.zoo import METHODS, PAPERS, drawn
from law.statistical.budget import VERY_FAR
from law.statistical.small_groups import (
    SIGMA,
    by_nodes,
    coordinates,
    correlated,
    figures,
    in_closed_form,
    model_of,
    rows_of,
    two_parameters,
)
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.plan import groups
from pymc_minibatch_mh.plan.groups import GroupsPlan
from pymc_minibatch_mh.reparametrize.integrated import Shifts

DRAWS, TUNE, SEED, ENOUGH = 3_000, 500, 47, 2_000
#: Groups of which one is compared. Largest share of updates that may evaluate all groups.
EVERY, MOST_FULL = 5, 0.2


class Case(NamedTuple):
    """A model of groups, and the power of the scale that is a coordinate."""

    family: str
    centred: bool
    tau: float
    root: int
    size: tuple[int, int] = (1_200, 210)

    @property
    def rows(self):
        return rows_of(self.family, *self.size, self.tau)


CASES = {
    "bernoulli": Case("bernoulli", centred=False, tau=0.7, root=1),
    "normal": Case("normal", centred=True, tau=0.7, root=1),
    "normal, weak": Case("normal", centred=False, tau=0.3, root=2, size=(2_000, 350)),
    "bernoulli, centred": Case("bernoulli", centred=True, tau=0.7, root=1),
    "poisson": Case("poisson", centred=True, tau=0.7, root=1),
    "poisson, weak": Case("poisson", centred=False, tau=0.3, root=2, size=(3_000, 500)),
}
QUICK = ("normal",)


def run(case, method=TunaMH, draws=DRAWS, **settings):
    """Sample a case, with the coordinate of the scale that it has; settings are of `sample`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "UNCERTAIN", 0.0)
        patch.setattr(groups, "_is_better_squared", lambda *_: case.root == 2)
        model = model_of(case.family, case.rows, centred=case.centred)
        step = method(blocks="groups", observed=["y"], model=model)
    assert isinstance(step.plan, GroupsPlan)
    assert [scale.root for scale in step.plan.target.compiled.layout.scales] == [case.root]
    return drawn(model, step, draws, TUNE, random_seed=SEED, **settings)


@cache
def tuna(name):
    """Return draws of a case by TunaMH, most of whose updates evaluate some groups only."""
    trace = run(CASES[name])
    assert float(trace.sample_stats["full_pass"].mean()) <= MOST_FULL
    return trace.posterior


@cache
def quadrature(name):
    """Return the means of a case; the trace tells where the posterior is."""
    case, trace = CASES[name], tuna(name)
    at: Any = partial(by_nodes, case.family, case.rows)
    if case.family == "normal":
        at = partial(in_closed_form, case.rows)
    shared = np.stack([trace["mu"], trace["b"], np.log(trace["tau"])]).reshape(3, -1)
    points = 13 if case.root == 2 else 11
    return figures(at, shared.mean(axis=1), np.linalg.cholesky(np.cov(shared)), points)


def distances(trace, means):
    """Return how far means of draws are from others, in Monte Carlo errors."""
    draws = {name: trace[name].to_numpy() for name in ("mu", "b", "tau", "z") if name in trace}
    draws |= {f"{name}²": values**2 for name, values in draws.items()}
    if "z" in draws:
        draws["z tau"] = draws["z"] * draws["tau"][..., None]
    found = {}
    for name, values in draws.items():
        cells = values.reshape(*values.shape[:2], -1)
        for k, mean in [*enumerate(np.atleast_1d(means[name]))][::EVERY]:
            own = cells[..., k]
            assert az.ess(own) >= ENOUGH, name
            found[f"{name}[{k}]"] = abs(own.mean() - mean) / az.mcse(own, method="mean")
    return found


@pytest.mark.parametrize("name", fast(CASES, QUICK))
def test_posterior_is_that_of_quadrature(name):
    found = distances(tuna(name), quadrature(name))
    assert {what: x for what, x in found.items() if x >= VERY_FAR} == {}


#: Fast methods of either kind, and all others: exact methods have the same law, approximate ones
#: differ by less than the noise here.
OTHERS = METHODS.keys() - {"TunaMH", "FireflyMH"} | PAPERS.keys()


@pytest.mark.parametrize("method", fast(sorted(OTHERS), ("BarkerMinibatchMH",)))
def test_other_methods_have_the_same_posterior(method):
    trace = run(CASES["normal"], (METHODS | PAPERS)[method], draws=5_000, effects=False)
    found = distances(trace.posterior, quadrature("normal"))
    assert len(found) == 6
    assert {what: x for what, x in found.items() if x >= VERY_FAR} == {}


def standardised(trace, rows):
    """Return effects less their conditional means, over their conditional sds, by closed form."""
    mu, b, tau = (trace[name].to_numpy()[..., None] for name in ("mu", "b", "tau"))
    count, total, moment = (rows.sums @ x for x in (np.ones(rows.y.size), rows.y, rows.x))
    ratio = tau / SIGMA
    variance = 1.0 / (1.0 + ratio**2 * count)
    mean = variance * ratio * (total - mu * count - b * moment) / SIGMA
    return (trace["z"].to_numpy() - mean) / np.sqrt(variance)


@pytest.mark.parametrize("name", fast(["normal", "normal, weak"], QUICK))
def test_effects_are_drawn_anew_given_each_position(name):
    """Whatever positions are, effects less what they tell is noise, of every draw another one."""
    trace = tuna(name)
    noise = standardised(trace, CASES[name].rows)
    tau = trace["tau"].to_numpy()[..., None]
    moved = (tau - tau.mean()) / tau.std()
    products = {
        "mean": noise,
        "variance": (noise**2 - 1.0) / np.sqrt(2.0),
        "next draw": noise[:, 1:] * noise[:, :-1],
        "next group": noise[..., 1:] * noise[..., :-1],
        "other chain": noise[:1] * noise[1:],
        "scale": noise * moved,
        "scale, squares": (noise**2 - 1.0) / np.sqrt(2.0) * moved,
    }
    for what, x in products.items():
        assert abs(x.mean()) * np.sqrt(x.size) < VERY_FAR, what
    of_groups = np.sqrt(noise[..., 0].size) * noise.mean(axis=(0, 1))
    assert np.abs(of_groups).max() < VERY_FAR


def few_groups():
    """Sample 60 groups of 300 rows: the least effective sample size of its coordinates is 6,700.

    Means and variances of all 27 differ from those by NUTS by 2.3 Monte Carlo errors at most.
    """
    return run(Case("bernoulli", centred=False, tau=0.7, root=1, size=(300, 60)), draws=10_000)


def two_effects():
    """Sample two correlated effects of each group: nearly all updates read all of 150 groups."""
    step = TunaMH(model=(model := correlated()), blocks="groups", observed=["y"])
    assert len(step.plan.groups.effects) == 2
    return drawn(model, step, 3_000, TUNE, random_seed=SEED)


def of_items():
    """Sample a model of two parameters for each item: all updates read all of its 500 groups."""
    step = TunaMH(model=(model := two_parameters()), observed=["y"])
    maps = step.plan.target.factorization.maps
    assert [type(one) for one in maps] == [Shifts]
    return drawn(model, step, 6_000, TUNE, random_seed=SEED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "draw", "enough"),
    [
        ("few groups", few_groups, ENOUGH),
        ("correlated", two_effects, 0.2 * ENOUGH),
        ("two parameters", of_items, ENOUGH),
    ],
)
def test_posterior_is_that_of_nuts(name, draw, enough):
    file = Path(__file__).with_name("group_references.json")
    reference, draws = json.loads(file.read_text())["models"][name], coordinates(draw())
    assert set(draws) == set(reference)
    for name, own in draws.items():
        figures_of_nuts, squares = reference[name], (own - own.mean()) ** 2
        assert min(figures_of_nuts["ess"], figures_of_nuts["ess_square"]) >= ENOUGH
        assert min(az.ess(own), az.ess(squares)) >= enough
        noise = np.hypot(az.mcse(own, method="mean"), figures_of_nuts["mcse_mean"])
        assert abs(own.mean() - figures_of_nuts["mean"]) < VERY_FAR * noise, name
        noise = np.hypot(az.mcse(squares, method="mean"), figures_of_nuts["mcse_variance"])
        assert abs(squares.mean() - figures_of_nuts["sd"] ** 2) < VERY_FAR * noise, name


def test_effects_of_a_repeated_position_are_others():
    trace = tuna("normal, weak")
    again = np.diff(trace["tau"], axis=1) == 0.0
    assert again.sum() > 100
    assert not (np.diff(trace["z"], axis=1)[again] == 0.0).any()


def test_nodes_stay_where_they_are():
    """The posterior is one sum over nodes, wherever chains move their centre."""
    case = CASES["normal"]._replace(size=(300, 60))
    model = model_of(case.family, case.rows, centred=case.centred)
    plan = TunaMH(blocks="groups", observed=["y"], model=model).plan
    moved = plan.around(plan.reference.centre + 2.0 * plan.reference.factor.sum(axis=1))
    for before, after in zip(
        plan.target.group_rows.nodes, moved.target.group_rows.nodes, strict=True
    ):
        np.testing.assert_array_equal(before, after)


def test_quadrature_over_effects_is_the_closed_form():
    rows, point = CASES["normal"].rows, np.array([0.1, 0.5, -0.4])
    one, other = by_nodes("normal", rows, point), in_closed_form(rows, point)
    constant = rows.y.size * np.log(SIGMA * np.sqrt(2.0 * np.pi))
    np.testing.assert_allclose(one[0] + constant, other[0], rtol=1e-9)
    np.testing.assert_allclose(one[1:], other[1:], atol=1e-7)
