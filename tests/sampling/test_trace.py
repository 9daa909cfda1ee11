import logging
from functools import cache

import numpy as np
import pytest
from arviz_base import extract

from helpers.zoo import sample
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.sampling import trace
from pymc_minibatch_mh.sampling.trace import evaluate_at_draws, make_datatree, recorded_variables
from sampling import models
from sampling.walking import (
    CHAINS,
    Walk,
    attributes_of,
    both_trees,
    numbered,
    ours_of,
    same_tree,
    walked,
)

#: Said by PyTensor where PyMC looks for a starting point of LKJCholeskyCov.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")
ATTRIBUTES = {"sampling_time": 1.5, "tuning_steps": 9}
SMALL = ["unconstrained", "constrained", "computed", "with_dims"]


@pytest.fixture(autouse=True)
def heard(caplog):
    """Hear what is said at level INFO."""
    caplog.set_level(logging.INFO, logger="pymc")
    return caplog


@pytest.fixture(scope="module")
def walk_of():
    """Name of a model -> the model, PyMC's tree and its step."""

    @cache
    def walk(name):
        model = getattr(models, name)()
        return model, *walked(model)

    return walk


@pytest.mark.parametrize("name", SMALL)
def test_the_tree_is_that_of_pymc(name, walk_of, heard):
    model, theirs, step = walk_of(name)
    heard.clear()
    same_tree(theirs, ours_of(model, theirs, step))
    assert heard.text == ""


@pytest.mark.parametrize("name", ["unconstrained", "with_dims"])
def test_warm_up_is_kept_as_pymc_keeps_it(name):
    theirs, ours = both_trees(getattr(models, name)(), keep_warm_up=True)
    assert {"warmup_posterior", "warmup_sample_stats"} < set(ours.children)
    same_tree(theirs, ours)


@pytest.mark.parametrize("names", [["mu", "sigma", "b"], ["count"], ["sigma", "scalar"]])
def test_names_choose_as_in_pymc(names):
    theirs, ours = both_trees(models.computed(), var_names=names)
    assert set(ours.posterior.data_vars) == set(names)
    same_tree(theirs, ours)


def test_a_prepared_this_package_leaves_the_same_tree(model_of, prepared):
    model, step = model_of("logistic"), prepared("logistic", "TunaMH")
    theirs = sample(model, step, 50, 50, random_seed=3)
    factorization = step.target.factorization
    stats = {name: x.to_numpy() for name, x in theirs.sample_stats.data_vars.items()}
    draws = numbered(theirs.posterior["beta"].to_numpy(), stats)
    kept = recorded_variables(model, model.initial_point())
    same_tree(theirs, make_datatree(model, factorization.draws, kept, draws, attributes_of(theirs)))


@pytest.fixture(scope="module")
def tall():
    model = models.tall()
    return model, Walk(model=model).factorization


def draws_of(factorization, n_draws, **given):
    positions = np.random.default_rng(5).standard_normal((CHAINS, n_draws, factorization.size))
    return numbered(positions, {"accept": np.ones((CHAINS, n_draws))}, **given)


def tree_of(model, factorization, draws, var_names=None, **settings):
    kept = recorded_variables(model, model.initial_point(), var_names)
    return make_datatree(model, factorization.draws, kept, draws, ATTRIBUTES, **settings)


def test_large_deterministics_are_left_out_and_told_of_once(tall, heard):
    tree = tree_of(*tall, draws_of(tall[1], 20))
    assert list(tree.posterior.data_vars) == ["slope", "sigma", "double"]
    assert trace.THINNED not in tree
    assert [r.levelname for r in heard.records] == ["INFO"]
    assert "'mu', 4,000 values, 30.5 MiB; 'wide', 4,000 × 2 values, 61.0 MiB" in heard.text
    assert "var_names=" in heard.text


def test_named_ones_are_kept_of_few_draws(tall, heard):
    model, factorization = tall
    draws = draws_of(factorization, 250, numbers=np.arange(0, 500, 2))
    tree = tree_of(model, factorization, draws, ["wide", "mu", "slope"])
    assert list(tree.posterior.data_vars) == ["slope"]
    thinned = tree[trace.THINNED]
    assert list(thinned.data_vars) == ["mu", "wide"]
    np.testing.assert_array_equal(thinned.draw, np.arange(0, 500, 6))
    assert "'mu', 'wide': kept for 84 of 250 draws of each chain" in heard.text
    slope = tree.posterior["slope"].sel(draw=thinned.draw)
    expected = slope.to_numpy()[..., None] * np.linspace(-1.0, 1.0, models.MANY)
    np.testing.assert_allclose(thinned["mu"], expected)
    np.testing.assert_allclose(thinned["wide"][..., 1], expected**2)
    assert thinned["mu"].dims == ("chain", "draw", "row")
    assert thinned.attrs["tuning_steps"] == 9
    assert extract(tree, group=trace.THINNED, var_names="mu").shape == (models.MANY, 84 * CHAINS)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["slope", "sgima"], r"var_names= has 'sgima', .* Choose from \['slope', 'sigma'"),
        (["slope", "sigma_log__"], "has 'sigma_log__', which is neither a free variable"),
        (["slope", "y"], "has 'y', which is neither a free variable"),
        (["slope", "slope"], "has 'slope' twice"),
        ([], "is not a list of names"),
        ("slope", "var_names='slope' is not a list of names"),
        (["wide", "mu"], "only large deterministics, .* such as 'slope'"),
    ],
)
def test_names_that_cannot_be_kept_are_refused(names, said):
    model = models.tall()
    with pytest.raises(SettingError, match=said):
        recorded_variables(model, model.initial_point(), names)


def values_of(model, names, n=9, scale=1.0):
    factorization = Walk(model=model).factorization
    variables = [v for v in model.unobserved_value_vars if v.name in names]
    positions = scale * np.random.default_rng(3).standard_normal((n, factorization.size))
    values = evaluate_at_draws(model, factorization, variables, positions)
    return positions, dict(zip((v.name for v in variables), values, strict=True))


@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")
def test_what_serves_one_draw_only_is_evaluated_draw_by_draw(heard):
    names = {"own", "loop", "above", "random", "square"}
    b, values = values_of(models.one_by_one(), names)
    np.testing.assert_array_equal(values["own"], np.sort(b))
    last = 0.25 * b[:, 0] + 0.5 * b[:, 1] + b[:, 2]
    np.testing.assert_allclose(values["loop"][:, 2], last)
    np.testing.assert_allclose(values["above"], np.where(b > 0, b, 0.0).sum(1))
    assert len(np.unique(values["random"] - b)) == b.size
    np.testing.assert_array_equal(values["square"], b**2)
    said = [record.getMessage() for record in heard.records]
    assert [text.split("'")[1] for text in said] == ["own", "loop", "above", "random"]
    assert "is a custom function" in said[0]
    assert "is a loop" in said[1]
    assert "draws random numbers" in said[3]


@pytest.mark.parametrize("name", ["constrained", "computed", "with_dims"])
def test_blocks_make_no_difference(name, monkeypatch, heard):
    model = getattr(models, name)()
    names = {v.name for v in model.unobserved_RVs}
    _, whole = values_of(model, names)
    monkeypatch.setattr(trace, "BLOCK_BYTES", 5_000)
    _, parts = values_of(model, names)
    for one in whole:
        np.testing.assert_allclose(parts[one], whole[one], rtol=1e-14)
    assert heard.text == ""


def test_other_values_for_many_draws_are_noticed(monkeypatch, heard):
    model = models.one_by_one()
    honest = trace.vectorize_graph
    monkeypatch.setattr(trace, "vectorize_graph", lambda *given: [1.01 * g for g in honest(*given)])
    b, values = values_of(model, {"square"})
    np.testing.assert_array_equal(values["square"], b**2)
    assert "gives other values" in heard.text
