"""Elements of a model, and the proof that the prior is a sum over them."""

import numpy as np
import pymc as pm
import pytest

from every import every
from grouped import MODELS, step_of
from pymc_minibatch_mh.likelihood.elements import NotSeparableError, elements_of
from pymc_minibatch_mh.likelihood.factorization import factorize
from pymc_minibatch_mh.likelihood.function import row_functions
from pymc_minibatch_mh.plan.sharing import ReadingSettings, read_model

_RNG = np.random.default_rng(1)
N, G = 1_200, 12
GROUP, OTHER = _RNG.integers(0, G, N), _RNG.integers(0, G, N)
X, Y, WIDE = _RNG.normal(size=N), _RNG.normal(size=N), _RNG.normal(size=(G, 2))


def target_of(model):
    reading = ReadingSettings(None, None, (), None)
    return read_model(model, model.value_vars, model.initial_point(), reading).target


def normal(predictor):
    pm.Normal("y", predictor, 1.0, observed=Y)


def nested():
    region = pm.Normal("region", 0.0, 1.0, shape=3)
    town = pm.Normal("town", region[np.arange(G) % 3], pm.HalfNormal("tau", 1.0), shape=G)
    normal(town[GROUP])


def regression():
    gamma = pm.Normal("gamma", 0.0, 1.0, shape=2)
    z = pm.Normal("z", 0.0, 1.0, shape=G)
    normal((WIDE @ gamma)[GROUP] + pm.HalfNormal("tau", 1.0) * z[GROUP])


def with_potential():
    effect = pm.Normal("effect", 0.0, pm.HalfNormal("tau", 1.0), shape=G)
    pm.Potential("bound", -(effect**4))
    normal(effect[GROUP])


def matrix():
    tau = pm.HalfNormal("tau", 1.0, shape=2)
    effect = pm.Normal("effect", 0.0, tau, shape=(G, 2))
    normal(effect[GROUP, 0] + effect[GROUP, 1] * X)


SEPARABLE = {made.__name__: made for made in (nested, regression, with_potential, matrix)}


def require_separable(target, position):
    """Require that each element changes its own density alone, and nothing else of the prior."""
    elements, rng = target.elements, np.random.default_rng(2)
    found = [np.empty(factor.places.size) for factor in elements.factors]

    def at(place):
        for out, density in zip(found, target.element_densities, strict=True):
            density(place, target.rows.context, out)
        own = np.concatenate(found)
        return own.copy(), target.log_prior(place) - own.sum()

    here, rest = at(position)
    moved = position.copy()
    moved[elements.labels] += rng.normal(size=elements.labels.size)
    there, other = at(moved)
    assert other == pytest.approx(rest, rel=1e-10, abs=1e-10)
    assert (there != here).all()
    for number in rng.choice(elements.labels.size, 3, replace=False):
        moved = position.copy()
        moved[elements.labels[number]] += 0.3
        assert np.flatnonzero(at(moved)[0] != here).tolist() == [number]


@every("name", SEPARABLE)
def test_prior_is_a_sum_over_elements(name):
    with pm.Model() as model:
        SEPARABLE[name]()
    target = target_of(model)
    position = np.random.default_rng(3).normal(size=target.factorization.size)
    require_separable(target, position)


@every("name", ["logistic", "slopes", "two_terms"])
def test_prior_is_a_sum_over_elements_of_shared_models(name):
    step = step_of(name)
    require_separable(step.plan.target, step.plan.elements.draw(np.random.default_rng(4), 1.0))


def test_border_factors_and_others_are_all_coordinates():
    with MODELS["logistic"]() as model:
        target = target_of(model)
    found, parts = target.elements, target.factorization
    names = np.array([name.partition("[")[0] for name in parts.coordinate_names])
    assert [factor.name for factor in found.factors] == ["u", "v"]
    assert [factor.places.size for factor in found.factors] == [20, 7]
    assert set(names[found.border]) == {"b"}
    # α = b[0] + τ u has a location that no row reads any more.
    assert set(names[found.others]) == {"b", "tau_log__", "omega_log__"}


def difference():
    team = pm.Normal("team", 0.0, 1.0, shape=G)
    normal(team[GROUP] - team[OTHER])


def in_pairs():
    effect = pm.MvNormal("effect", np.zeros(2), np.eye(2) + 0.5, shape=(G, 2))
    normal(effect[GROUP, 0] + effect[GROUP, 1] * X)


def over_time():
    normal(pm.GaussianRandomWalk("walk", sigma=1.0, init_dist=pm.Normal.dist(), shape=G)[GROUP])


def summed():
    effect = pm.Normal("effect", 0.0, 1.0, shape=G)
    pm.Potential("sum", -(effect.sum() ** 2))
    normal(effect[GROUP])


def alone():
    normal(pm.Normal("b", 0.0, 1.0) * X)


REFUSED = {
    difference: "'team' .* two",
    in_pairs: "'effect' has a prior",
    over_time: "'walk' has a prior",
    summed: "'effect' has a prior in which a sum couples elements",
    alone: "no data choose a parameter",
}


@every("made", REFUSED)
def test_what_is_not_separable_is_refused_by_name(made):
    with pm.Model() as model:
        made()
    with pytest.raises(NotSeparableError, match=REFUSED[made]):
        _ = target_of(model).elements


def test_elements_are_found_in_the_order_of_the_index():
    with MODELS["slopes"]() as model:
        parts = factorize(model, model.value_vars)
    found = elements_of(parts, row_functions(parts))
    names = parts.coordinate_names
    assert [names[k] for k in found.factors[0].places] == [f"a[{g}]" for g in range(15)]
    assert [names[k] for k in found.factors[1].places] == [f"c[{g}]" for g in range(15)]
