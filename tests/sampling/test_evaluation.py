import logging

import numpy as np
import pymc as pm
import pytest
from pytensor.scalar.basic import Cast
from pytensor.tensor.elemwise import Elemwise

from every import every
from pymc_minibatch_mh.sampling import evaluation
from pymc_minibatch_mh.sampling.evaluation import values_at
from sampling import models
from sampling.walking import Walk

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")


@pytest.fixture(autouse=True)
def heard(caplog):
    """Hear what is said at level INFO."""
    caplog.set_level(logging.INFO, logger="pymc")
    return caplog


def values_of(model, names, n=9, scale=1.0):
    factorization = Walk(model=model).factorization
    variables = [v for v in model.unobserved_value_vars if v.name in names]
    positions = scale * np.random.default_rng(3).standard_normal((n, factorization.size))
    values = values_at(model, factorization, variables, positions)
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
    assert "is a function of your own" in said[0]
    assert "is a loop" in said[1]
    assert "draws random numbers" in said[3]


def test_nothing_is_said_of_what_serves_many_draws(heard):
    values_of(models.one_by_one(), {"square"})
    assert heard.text == ""


def test_names_that_numpy_reads_as_dtypes_are_names(heard):
    names = "1|g_sigma", "a,b"
    with pm.Model() as model:
        free = [pm.Normal(name, shape=2) for name in names]
        pm.Deterministic("sum", free[0] + free[1])
        models.rows(free[0][0])
    positions, values = values_of(model, {"sum"})
    np.testing.assert_array_equal(values["sum"], positions[:, :2] + positions[:, 2:])
    assert heard.text == ""


@pytest.mark.parametrize("name", ["constrained", "computed", "with_dims"])
def test_blocks_make_no_difference(name, monkeypatch, heard):
    model = getattr(models, name)()
    names = {v.name for v in model.unobserved_RVs}
    _, whole = values_of(model, names)
    monkeypatch.setattr(evaluation, "BLOCK_BYTES", 5_000)
    _, parts = values_of(model, names)
    for one in whole:
        np.testing.assert_allclose(parts[one], whole[one], rtol=1e-14)
    assert heard.text == ""


def test_a_block_holds_what_memory_allows(monkeypatch):
    model = models.tall()
    factorization = Walk(model=model).factorization
    (mu,) = [v for v in model.unobserved_value_vars if v.name == "mu"]
    function = evaluation.BlockFunction(factorization.blocks, [mu])
    count = function._draws_in_block(np.zeros((1, factorization.size)))
    # A value for each row, and the parameters, next to nothing.
    assert 8 * models.MANY * count == pytest.approx(evaluation.BLOCK_BYTES, rel=0.01)
    monkeypatch.setattr(evaluation, "BLOCK_BYTES", 10)
    assert function._draws_in_block(np.zeros((1, factorization.size))) == 1


def test_far_out_values_are_as_accurate_as_those_of_pymc():
    b, values = values_of(models.computed(), {"stable", "softplus"}, scale=300.0)
    np.testing.assert_allclose(values["softplus"], np.logaddexp(0.0, b[:, :2]), rtol=1e-14)
    np.testing.assert_allclose(values["stable"], -np.logaddexp(0.0, b[:, :2]), rtol=1e-14)
    assert np.abs(values["stable"]).max() > 100


def test_numpy_has_all_functions_of_numbers():
    model = models.computed()
    names = {"stable", "softplus", "complement", "clipped"}
    variables = [v for v in model.unobserved_value_vars if v.name in names]
    function = evaluation.BlockFunction(Walk(model=model).factorization.blocks, variables)
    nodes = function._many.maker.fgraph.toposort()
    scalars = [node.op.scalar_op for node in nodes if isinstance(node.op, Elemwise)]
    assert scalars
    assert all(op.nfunc_spec is not None or isinstance(op, Cast) for op in scalars)


def test_other_values_for_many_draws_are_noticed(monkeypatch, heard):
    model = models.one_by_one()
    honest = evaluation.vectorize_graph
    monkeypatch.setattr(
        evaluation, "vectorize_graph", lambda *given: [1.01 * g for g in honest(*given)]
    )
    b, values = values_of(model, {"square"})
    np.testing.assert_array_equal(values["square"], b**2)
    assert "has other values" in heard.text


@every(
    ("one", "other", "same"),
    [
        ([1.0, 1e-20], [1.0, 0.0], True),
        ([1.0, 1e-3], [1.0, 0.0], False),
        ([np.nan, np.inf], [np.nan, np.inf], True),
        ([np.nan, 1.0], [0.0, 1.0], False),
        ([-np.inf, 1.0], [np.inf, 1.0], False),
        ([1, 2], [1, 3], False),
        ([1.0], [1.0, 1.0], False),
        ([], [], True),
    ],
)
def test_sameness_is_up_to_rounding(one, other, same):
    assert evaluation._same(np.array(one), np.array(other)) is same
