"""Which coordinates a shape is moved in, what bounds these have, and where the centre lies."""

import numpy as np
import pytest

from helpers.shapes import negative_binomial, own, reciprocal, student
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.native.bound_tables import table_of_move
from pymc_minibatch_mh.plan.bound_sources import DerivedBounds
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.plan.parametrization import choose_parametrization
from pymc_minibatch_mh.plan.plan import Requirements
from pymc_minibatch_mh.reference.full_data import BoundedMove
from pymc_minibatch_mh.reference.log_coordinates import LogFullData, with_logs
from pymc_minibatch_mh.reference.target import Target

ROWS = 3_000
POISSON, NORMAL = "counts that are Poisson", "noise that is normal"
FAR = {POISSON: negative_binomial, NORMAL: student}


def chosen(model):
    """Return a model in the coordinates that are chosen for its shapes."""
    return choose_parametrization(CompiledModel(own(model)), model.initial_point())


def words_of(model):
    """Return the shapes whose reciprocals a model is moved in."""
    return [shape.label for shape in chosen(model).factorization.maps]


def prepared(model, power=1):
    target = Target(CompiledModel(reciprocal(model, power)))
    start = target.factorization.ravel(model.initial_point())
    reference = target.expand(start, np.random.default_rng(0))[0]
    return DensePlan(target, Requirements(bounds=DerivedBounds()), reference).completed()


@pytest.fixture(scope="module", params=list(FAR))
def far(request):
    return prepared(FAR[request.param](rows=ROWS))


@pytest.mark.parametrize("name", list(FAR))
def test_a_shape_that_may_be_infinite_is_moved_by_its_reciprocal(name):
    assert words_of(FAR[name](rows=ROWS)) == ["1/alpha" if name == POISSON else "1/√nu"]


def test_a_shape_that_data_tell_stays_a_logarithm():
    assert words_of(negative_binomial(rows=ROWS, shape=2.0)) == []
    assert words_of(student(rows=ROWS, nu=3.0)) == []


def test_the_centre_lies_inside_and_the_metric_is_that_of_the_density(far):
    target, reference = far.target, far.reference
    (place,) = target.factorization.boundary
    assert 0.0 < reference.centre[place] < 6.0 * np.linalg.norm(reference.factor[place])
    passes = target.full_data
    hessian = passes.likelihood(reference.centre, hessian=True).hessian
    precision = -hessian - passes.prior(reference.centre, hessian=True).hessian
    found = reference.whitener.T @ reference.whitener
    assert found == pytest.approx(precision, rel=1e-6, abs=1e-6 * np.abs(precision).max())
    # There the density times the reciprocal has its maximum.
    climbed = LogFullData(target.full_data, [place])
    slope = climbed.prior(with_logs(reference.centre, [place]), hessian=False).gradient
    slope[place] /= reference.centre[place]
    slope += reference.gradient
    assert np.linalg.norm(reference.factor.T @ slope) < 0.01


def test_no_row_exceeds_its_bound_near_zero(far):
    """Moves from and to positions with reciprocals of 0, and all over the trust regions."""
    target, reference, tables = far.target, far.reference, far.tables
    (place,) = target.factorization.boundary
    rng, largest, bounded = np.random.default_rng(1), [], 0
    for move in range(60):
        noise = [1.0, 2.5][move % 2] * rng.standard_normal((2, target.factorization.size))
        ends = target.factorization.in_support(reference.centre + noise @ reference.factor.T)
        ends[0, place] *= [0.0, 1e-9, 0.1, 1.0][move % 4]
        best, m = table_of_move(tables.arrays, reference, *ends)
        if best >= 0:
            bounded += 1
            made = BoundedMove(target.taylor_order, (*ends, reference.centre), best, m, 1.0)
            ratio, _ = target.full_data.largest_ratio(made, tables.c[best])
            largest.append(ratio)
    assert bounded > 40
    assert 0.02 < max(largest) <= 1.0
