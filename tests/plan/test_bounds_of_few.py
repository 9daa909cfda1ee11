"""The trial of bounds on a few rows, before anything is compiled for all of them."""

import logging

import numpy as np
import pytest

from helpers.models import poisson
from helpers.without_bounds import marks_of_raters
from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.plan.prepare import forecast_of_few, n_slopes
from pymc_minibatch_mh.reference.few_rows import FewRows, reference_of_few
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.steps import many_rows

MESSAGE = (
    r"'mark' has no proved bound: in row \d+ the logarithm of the probability between two ends"
)


def target_of(model):
    return Target(CompiledModel(factorize(model, model.value_vars)))


def forbidden(*_):
    raise AssertionError("rows are compiled")


def test_a_model_without_bounds_is_refused_before_rows_are_compiled(monkeypatch):
    monkeypatch.setattr(FormRows, "_compile", forbidden)
    with pytest.raises(BoundsError, match=MESSAGE) as error:
        TunaMH(model=marks_of_raters())
    for part in ("which depend on 'q', 'precision' and 'c'", "overlap", "PenaltyMH()"):
        assert part in str(error.value)


def test_methods_without_bounds_have_no_trial(monkeypatch):
    monkeypatch.setattr(FormRows, "_compile", forbidden)
    with pytest.raises(AssertionError, match="rows are compiled"):
        PenaltyMH(model=marks_of_raters())


def test_short_functions_have_no_trial(monkeypatch):
    target = target_of(poisson())
    assert n_slopes(target) < 200
    monkeypatch.setattr("pymc_minibatch_mh.plan.prepare.reference_of_few", forbidden)
    assert forecast_of_few(target, np.zeros(target.factorization.size)) == 0.0


def test_derivatives_of_few_rows_are_those_of_compiled_rows():
    target = target_of(marks_of_raters(in_order=True))
    few = FewRows.spread(target, target.row_functions)
    theta = 0.3 * np.random.default_rng(3).normal(size=target.factorization.size)
    rows = np.unique(np.linspace(0, target.source.n_rows - 1, few.n_rows).astype(np.int64))
    ours = few.likelihood(theta, hessian=True)
    exact = target.full_data.likelihood(theta, hessian=True, rows=rows)
    assert ours.value == pytest.approx(exact.value, rel=1e-10)
    np.testing.assert_allclose(ours.gradient, exact.gradient, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.hessian, exact.hessian, rtol=1e-8, atol=1e-8)


def test_the_metric_of_few_rows_is_that_of_all(model_of):
    model = model_of("poisson")
    target = target_of(model)
    start = target.factorization.ravel(model.initial_point())
    few, whole = reference_of_few(target, start), TunaMH(model=model).reference
    np.testing.assert_allclose(few.whitener @ whole.factor, np.eye(start.size), atol=0.3)
    assert np.linalg.norm(whole.whitener @ (few.centre - whole.centre)) < 10.0


@pytest.mark.parametrize(("rows", "count"), [(0.9, 1), (0.0, 0)])
def test_many_rows_are_told_before_any_is_compiled(rows, count, monkeypatch):
    model = poisson()
    target = target_of(model)
    monkeypatch.setattr(many_rows, "forecast_of_few", lambda *_: rows * target.source.n_rows)
    messages, logger, handler = [], logging.getLogger("pymc"), logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger.addHandler(handler)
    many_rows.try_bounds("TunaMH", target, model.initial_point())
    logger.removeHandler(handler)
    assert len(messages) == count
    text = "by the bounds of a few rows, an update is forecast to evaluate 90 %"
    assert all(text in message for message in messages)
