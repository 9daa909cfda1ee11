"""A reason that the graph of a model has is told before anything is compiled or searched for."""

import logging
import re

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numba.core.dispatcher import Dispatcher
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.linker import NumbaLinker

import pymc_minibatch_mh
from docs.inputs.case import INTERNALS
from pymc_minibatch_mh.errors import BoundsError, UnsupportedModelError
from pymc_minibatch_mh.reference.full_data import FullData

N = 1_200
RNG = np.random.default_rng(8)
x, y = RNG.uniform(0.1, 0.9, N), RNG.normal(size=N)
#: Rooms whose compiled functions know no model: interval arithmetic, and reading rows.
GENERAL = ("pymc_minibatch_mh.functions.", "pymc_minibatch_mh.data.")


def allow_only_the_graph(monkeypatch):
    """Fail where a model is compiled, or derivatives of rows or of the prior part are asked for.

    Numbers that a model computes from its data are evaluated operation by operation, in Python.
    """
    function, compiled = pytensor.function, Dispatcher.compile

    def in_python(*args, **options):
        assert not isinstance(get_mode(options.get("mode")).linker, NumbaLinker), "compiled"
        return function(*args, **options)

    def for_any_model(dispatcher, signature):
        assert dispatcher.py_func.__module__.startswith(GENERAL), "compiled"
        return compiled(dispatcher, signature)

    def never(*_args, **_kwargs):
        raise AssertionError("passed over all rows")

    monkeypatch.setattr(pytensor, "function", in_python)
    monkeypatch.setattr(Dispatcher, "compile", for_any_model)
    monkeypatch.setattr(FullData, "likelihood", never)
    monkeypatch.setattr(FullData, "prior", never)


class Unknown(Op):
    """An operation of a user's own, without a derivative."""

    def make_node(self, a):
        a = pt.as_tensor(a)
        return Apply(self, [a], [a.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.sin(inputs[0])


CASES = {}


def case(method, error, message, **settings):
    def register(declare):
        CASES[declare.__name__] = declare, method, settings, error, message
        return declare

    return register


def observe(mu, **options):
    pm.Normal("y", mu, **{"observed": y} | options)


@case("TunaMH", BoundsError, "'y' goes through tan, whose derivatives have no known bound")
def without_a_rule():
    observe(pt.tan(pm.Normal("a") * x))


@case("TunaMH", BoundsError, "'y' goes through tan, whose derivatives have no known bound")
def without_a_rule_in_the_rows_of_others():
    first = pm.logp(pm.Normal.dist(pm.Normal("a")), y)
    other = pm.logp(pm.Normal.dist(pt.tan(pm.Normal("b"))), y)
    logp = pt.switch(pt.as_tensor(np.arange(N) < N // 2), other, first)
    pm.CustomDist("y", logp, logp=lambda _, given: given, observed=y)


@case("TunaMH", BoundsError, "Pass default_transform=circular for an angle, not transform=circular")
def with_two_transforms_of_an_angle():
    circular = pm.distributions.transforms.circular
    observe(pt.cos(x - pm.Uniform("a", -np.pi, np.pi, transform=circular)))


@case("PoissonMH", BoundsError, "has no range: in row 0 ")
def without_a_range():
    observe(pm.Normal("a"))


@case("FireflyMH", BoundsError, "no quadratic lower bound, because it uses", bound="untuned")
def without_a_quadratic_bound():
    pm.Poisson("y", pt.exp(pm.Normal("a")), observed=np.ones(N, dtype=int))


@case("BarkerMinibatchMH", UnsupportedModelError, "the operation Unknown has no derivative")
def operation_of_a_user():
    observe(Unknown()(pm.Normal("a")) * x)


@case("AustereMH", UnsupportedModelError, "the operation Unknown has no derivative")
def prior_without_a_derivative():
    a = pm.Normal("a")
    pm.Potential("more", Unknown()(a))
    observe(a * x)


def built(declare):
    with pm.Model() as model:
        declare()
    return model


def refusal(model, error, method="TunaMH", **settings):
    with pytest.raises(error) as found:
        getattr(pymc_minibatch_mh, method)(model=model, **settings)
    message = str(found.value)
    assert re.search(INTERNALS, message) is None, message
    return message


@pytest.mark.parametrize("name", CASES)
def test_the_graph_alone_tells_why(name, monkeypatch):
    allow_only_the_graph(monkeypatch)
    declare, method, settings, error, message = CASES[name]
    assert message in refusal(built(declare), error, method, **settings)


def test_a_model_that_was_read_for_another_step_is_refused_as_early(monkeypatch):
    allow_only_the_graph(monkeypatch)
    model = built(without_a_rule)
    with pytest.raises(AssertionError, match=r"compiled|passed over"):
        pymc_minibatch_mh.PenaltyMH(model=model)
    assert "whose derivatives have no known bound" in refusal(model, BoundsError)


@pytest.mark.filterwarnings("ignore:SplineWrapper should implement:FutureWarning")
def test_an_operation_without_a_compiled_form_is_named(caplog):
    caplog.set_level(logging.WARNING, "pymc")
    points = np.linspace(-3.0, 3.0, 50)

    def declare():
        observe(pm.Interpolated("a", points, np.exp(-(points**2))) * x)

    step = pymc_minibatch_mh.TunaMH(model=built(declare))
    told = [record.getMessage() for record in caplog.records]
    assert any(
        text.startswith("'y': the operation SplineWrapper, of the model or") for text in told
    )
    # Within a prior of standard deviation 0.7, least squares shrink by the prior's precision of 2.
    exact = x @ y / (x @ x + 2.0)
    density = step.target.factorization
    (centre,) = density.unravel(step.plan.reference.centre, {}).values()
    assert -3.0 + 6.0 / (1.0 + np.exp(-centre)) == pytest.approx(exact, abs=0.1)
