"""Likelihood terms of one row, which a batch may hold any number of times."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from helpers.tiers import fast
from model.evaluation import positions, rows_of_batch, rows_of_whole, split_of
from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.compiled.graphs import GraphRows, row_source
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.row_sums import moments_of_move
from pymc_minibatch_mh.structure.row_function import row_functions

Y = np.array([0.9])
DESIGN = np.array([[1.0, -2.0, 3.0]])
OTHERS = np.linspace(-1.0, 1.0, 30)


def custom(mu, logp, observed=Y):
    pm.CustomDist("y", mu, logp=logp, observed=observed)


def softmax(mu, n):
    logits = [mu, *(pm.Normal(f"logit{k}") for k in range(1, n))]
    return pm.math.softmax(pt.stack(logits))


def vector_parameter(mu):
    pm.Normal("y", mu + pm.Normal("shift", shape=1), observed=Y)


def column_of_a_parameter(v, m):
    return pt.logsumexp(pt.concatenate([(v - m)[:, None], pt.alloc(m, 1, 1)], axis=1), axis=1)


KINDS = {
    "custom density": lambda mu: custom(mu, lambda v, m: -0.5 * (v - m) ** 2),
    "custom density of pm.Data": lambda mu: custom(
        mu, lambda v, m: -0.5 * (v - m) ** 2, pm.Data("d", Y)
    ),
    "custom density without its data": lambda mu: custom(mu, lambda v, m: pt.alloc(-(m**2), 1)),
    "number put into a vector": lambda mu: custom(mu, lambda v, m: pt.reshape(m, (1,)) * v),
    "columns joined": lambda mu: custom(mu, column_of_a_parameter),
    "columns joined, of pm.Data": lambda mu: custom(mu, column_of_a_parameter, pm.Data("d", Y)),
    "column written over": lambda mu: custom(
        mu, lambda v, m: pt.set_subtensor(pt.zeros((1, 3))[:, 1], v * m).sum(1), pm.Data("d", Y)
    ),
    "columns added to": lambda mu: custom(
        mu, lambda v, m: pt.inc_subtensor((v[:, None] * np.ones((1, 3)))[:, 1:], m).sum(1)
    ),
    "normal": lambda mu: pm.Normal("y", mu, pm.HalfNormal("s"), observed=Y),
    "vector of one parameter": vector_parameter,
    "several values": lambda mu: pm.Normal("y", mu * DESIGN, observed=DESIGN),
    "regression": lambda mu: pm.Normal("y", DESIGN @ pm.Normal("b", shape=3) + mu, observed=Y),
    "regression on pm.Data": lambda mu: pm.Normal(
        "y", pm.Data("X", DESIGN) @ pm.Normal("b", shape=3) + mu, observed=pm.Data("d", Y)
    ),
    "one group": lambda mu: pm.Normal("y", pm.Normal("a", shape=4)[[2]] + mu, observed=Y),
    "binomial": lambda mu: pm.Binomial("y", 10, logit_p=mu, observed=[4]),
    "categorical": lambda mu: pm.Categorical("y", logit_p=mu * DESIGN, observed=[1]),
    "ordered": lambda mu: pm.OrderedLogistic(
        "y", eta=mu, cutpoints=[-1.0, 0.0, 1.0], compute_p=False, observed=[1]
    ),
    "multinomial": lambda mu: pm.Multinomial("y", 10, softmax(mu, 3), observed=[[1, 4, 5]]),
    "multivariate normal": lambda mu: pm.MvNormal("y", mu * DESIGN, np.eye(3), observed=DESIGN),
    "mixture": lambda mu: pm.NormalMixture(
        "y", [0.3, 0.7], mu=pt.stack([mu, mu + 1.0]), sigma=1.0, observed=Y
    ),
    "mixture of two kinds": lambda mu: pm.Mixture(
        "y",
        pm.Dirichlet("w", np.ones(2)),
        [pm.Normal.dist(mu, 1.0), pm.StudentT.dist(3.0, mu=mu, sigma=2.0)],
        observed=Y,
    ),
    "too many zeros": lambda mu: pm.ZeroInflatedPoisson("y", 0.3, pt.exp(mu), observed=[0]),
    "censored": lambda mu: pm.Censored("y", pm.Normal.dist(mu), None, 0.9, observed=Y),
    "truncated": lambda mu: pm.Truncated("y", pm.Normal.dist(mu), 0.0, None, observed=Y),
}


def model_with(kind, *, beside):
    with pm.Model() as model:
        mu = pm.Normal("mu")
        kind(mu)
        if beside:
            pm.Normal("z", mu, 2.0, observed=OTHERS)
    return model


@pytest.mark.parametrize("name", KINDS)
def test_one_row_is_read_as_often_as_a_batch_holds_it(name):
    model = model_with(KINDS[name], beside=False)
    parts = split_of(model)
    (term,) = parts.terms
    for position in positions(parts):
        whole = rows_of_whole(model, parts, "y", position)
        for n in (1, 7):
            rows = rows_of_batch(parts, term, position, np.zeros(n, dtype=int))
            assert rows.shape == (n,)
            np.testing.assert_allclose(rows, np.repeat(whole, n), rtol=1e-10)


# Compiled, beside a term of many rows and alone.


@pytest.mark.parametrize("beside", fast([False, True], [True]))
@pytest.mark.parametrize("reader", fast(["forms", "graph"], ["forms"]))
def test_compiled_code_reads_one_row_any_number_of_times(reader, beside):
    model = model_with(KINDS["custom density"], beside=beside)
    parts = split_of(model)
    source = row_source(parts)
    functions = row_functions(parts)
    rows = FormRows(functions, parts.size) if reader == "forms" else GraphRows(parts, source)
    space = rows.at(source).space(0, derivatives=True)
    first = int(source.term_starts[[term.name for term in parts.terms].index("y")])
    drawn = np.full(7, first)
    theta, new = positions(parts)
    before, after = (rows_of_whole(model, parts, "y", x) for x in (theta, new))

    ends, found = (theta, new, theta), np.empty(drawn.size)
    n, mean, second, *_ = moments_of_move(space, ends, drawn, found)
    assert n == drawn.size
    np.testing.assert_allclose(mean, after - before, rtol=1e-9)
    assert second < 1e-18 * mean**2

    sums, none = np.zeros(1 + parts.size), np.zeros((0, 0))
    function("mh_add_derivatives")(space, theta, drawn, drawn.size, 0, sums, none)
    np.testing.assert_allclose(sums[0], drawn.size * before, rtol=1e-9)
