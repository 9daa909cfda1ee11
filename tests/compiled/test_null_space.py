"""Directions that change no row are found, and no others are."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from helpers import models
from models.gallery.models_hierarchies import TEAMS, radon_intercepts, rugby
from pymc_minibatch_mh.compiled.form_rows import evaluate_predictors
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.null_space import likelihood_null_space

ROWS = 1_200


def data(seed=3):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, ROWS), rng.integers(0, 3, ROWS), rng.standard_normal((2, ROWS))


def crossed():
    """A location, two factors, slopes of which every other one is not used."""
    one, other, (x, y) = data()
    with pm.Model() as model:
        mu, tau, slope = pm.Normal("mu"), pm.HalfNormal("tau"), pm.Normal("slope")
        a, b = pm.Normal("a", 0.0, tau, shape=5), pm.Normal("b", 0.0, 1.0, shape=3)
        z = pm.Normal("z", 0.0, 1.0, shape=(5, 2))
        pm.Normal("y", mu + a[one] + b[other] + x * (slope + z[one, 1]), 1.0, observed=y)
    return model


def weighted(first, second):
    """Two parameters that rows read by two sums of them."""
    _, _, (x, y) = data()
    with pm.Model() as model:
        one, other = pm.Normal("one"), pm.Normal("other")
        s, t = first[0] * one + first[1] * other, second[0] * one + second[1] * other
        pm.Normal("y", s + x * t, 1.0, observed=y)
    return model


def doubled():
    """Rows that read effects together with their own mean, twice."""
    one, _, (_, y) = data()
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0, shape=5)
        pm.Normal("y", a[one] + a.mean(), 1.0, observed=y)
    return model


def scale_in_rows():
    """A scale of effects that rows read as well."""
    one, _, (_, y) = data()
    with pm.Model() as model:
        tau = pm.HalfNormal("tau")
        pm.Normal("y", pm.Normal("a", 0.0, tau, shape=5)[one], tau, observed=y)
    return model


FOUND = {
    "logistic": (models.logistic, []),
    "scale in rows": (scale_in_rows, []),
    "doubled": (doubled, []),
    "student": (models.student, [{"tau_log__"}]),
    "radon": (lambda: radon_intercepts(ROWS), [{"mu_a"}, {"sigma_a_log__"}]),
    "rugby": (
        lambda: rugby(ROWS),
        [
            {"sd_att_log__"},
            {"sd_def_log__"},
            {f"atts_star[{k}]" for k in range(TEAMS)},
            {f"defs_star[{k}]" for k in range(TEAMS)},
        ],
    ),
    "crossed": (
        crossed,
        [
            {"tau_log__"},
            *({f"z[{k}, 0]"} for k in range(5)),
            {"mu", *(f"b[{k}]" for k in range(3))},
            {"mu", *(f"a[{k}]" for k in range(5))},
            {"slope", *(f"z[{k}, 1]" for k in range(5))},
        ],
    ),
    "one sum": (lambda: weighted((1.0, 3.0), (1.0, 3.0)), [{"one", "other"}]),
    "two sums": (lambda: weighted((1.0, 3.0), (1.0, 3.0 + 1e-9)), []),
    "small beside large": (lambda: weighted((1.0, 1e-12), (0.0, 0.0)), [{"one", "other"}]),
    "small and needed": (lambda: weighted((1.0, 1e-12), (1.0, 0.0)), []),
    "small and different": (lambda: weighted((1.0, 1e-20), (1.0, 2e-20)), []),
}


def compiled(model):
    return CompiledModel(factorize(model, model.value_vars, min_rows=ROWS), None)


@pytest.mark.parametrize("name", FOUND)
def test_directions_are_those_that_change_no_row(name):
    """Linear forms are zero along them, and there are no others: ranks of all linear forms."""
    build, expected = FOUND[name]
    parts = compiled(build())
    names = parts.factorization.coordinate_names
    found = parts.null_space
    assert found.shape == (len(expected), len(names))
    moved = [{names[k] for k in np.flatnonzero(direction)} for direction in found]
    assert sorted(map(sorted, moved)) == sorted(map(sorted, expected))
    singles = [len(one) == 1 for one in moved]
    assert singles == sorted(singles, reverse=True)
    size, forms = len(names), []
    for function in parts.row_functions:
        rows = np.arange(function.n_rows)
        place = evaluate_predictors(function, rows, np.zeros(size), np.eye(size), directions=True)
        forms.append(place.whitened.reshape(-1, size))
    forms = np.vstack(forms)
    np.testing.assert_allclose(forms @ found.T, 0.0, atol=1e-14)
    if not name.startswith("small"):
        assert np.linalg.matrix_rank(forms, tol=1e-10) + len(found) == size


def test_what_other_steps_move_stays():
    model = crossed()
    others = ("mu", "z")
    own = [v for v in model.value_vars if v.name not in others]
    parts = CompiledModel(factorize(model, own, min_rows=ROWS), None)
    names = parts.factorization.coordinate_names
    moved = [{names[k] for k in np.flatnonzero(d)} for d in parts.null_space]
    expected = [{"tau_log__"}, {*(f"a[{k}]" for k in range(5)), *(f"b[{k}]" for k in range(3))}]
    assert moved == expected
    assert not parts.null_space[:, : parts.factorization.first].any()
    assert parts.factorization.first > 0


def graph(read):
    """Rows that are a graph of all parameters, as they go through a sort of theirs."""
    _, _, (x, y) = data()
    with pm.Model() as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
        a = pm.Normal("a", mu, tau, shape=3)
        level = pt.sort(a)[1] + (mu if read else 0.0)
        pm.Normal("y", level + x, 1.0, observed=y)
    return model


@pytest.mark.parametrize("read", [False, True])
def test_of_graphs_pieces_of_the_position_tell(read):
    parts = compiled(graph(read))
    assert parts.why_graph
    names = parts.factorization.coordinate_names
    moved = [{names[k] for k in np.flatnonzero(d)} for d in parts.null_space]
    assert moved == ([{"tau_log__"}] if read else [{"mu"}, {"tau_log__"}])


def test_a_graph_that_takes_the_whole_position_reads_all_of_it():
    model = graph(False)
    parts = factorize(model, model.value_vars, min_rows=ROWS)
    (term,) = parts.terms
    for whole in (parts.position.sum(), parts.position[parts.position.argmax()]):
        term.logp = term.logp + 0.0 * whole
        functions = CompiledModel(parts, None).row_functions
        assert not len(likelihood_null_space(parts, functions))
