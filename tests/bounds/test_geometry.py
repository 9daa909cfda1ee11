import numpy as np
import pymc as pm
import pytest

from bounds.certified import Rows, fit
from pymc_minibatch_mh.bounds.geometry import Geometry, box_of_support, geometry
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

#: One argument, two, three of which two are the same for all rows, four with an index.
FAMILIES = ["binomial", "heteroscedastic", "student_free", "noncentred"]
every_family = pytest.mark.parametrize("name", FAMILIES)
ROWS = np.arange(0, 2_000, 23)


def placed(name):
    fitted = fit(name, 2_000)
    reference = fitted.reference(2)
    rows = Rows(fitted.functions[0], ROWS, fitted.factorization.size)
    data = RowData(rows.function, ROWS)
    place = geometry(rows.function, data, reference.centre, reference.factor)
    return place, rows, reference


@every_family
@pytest.mark.parametrize("radius", [0.01, 3.0, 9.0])
def test_boxes_hold_the_arguments_of_all_positions(name, radius):
    """Of positions on and in the trust region."""
    place, rows, reference = placed(name)
    rng, boxes = np.random.default_rng(1), place.boxes(radius)
    for k in range(300):
        direction = rng.standard_normal(reference.centre.size)
        if k % 3 == 0:
            matrix = rows.matrices[k % len(rows.matrices)]
            direction = reference.factor.T @ matrix[rng.integers(len(ROWS))]
        direction *= (radius if k % 2 else radius * rng.random()) / np.linalg.norm(direction)
        arguments = rows.arguments(reference.centre + reference.factor @ direction)
        for u, box in zip(arguments, boxes, strict=True):
            assert ((box.lo <= u) & (u <= box.hi)).all()


@every_family
def test_boxes_are_no_larger_than_they_must_be(name):
    place, rows, reference = placed(name)
    for a, (matrix, box) in enumerate(zip(rows.matrices, place.boxes(2.0), strict=True)):
        whitened = matrix @ reference.factor
        direction = whitened / np.linalg.norm(whitened, axis=1, keepdims=True)
        for sign, end in ((1.0, box.hi), (-1.0, box.lo)):
            positions = reference.centre + 2.0 * sign * direction @ reference.factor.T
            np.testing.assert_allclose(rows.arguments(positions)[a] - end, 0.0, atol=1e-9)


@every_family
def test_norms(name):
    place, rows, reference = placed(name)
    inverse = np.linalg.inv(reference.whitener.T @ reference.whitener)
    for norm, matrix in zip(place.norms, rows.matrices, strict=True):
        expected = np.sqrt(np.einsum("nd,de,ne->n", matrix, inverse, matrix))
        np.testing.assert_allclose(np.broadcast_to(norm, len(ROWS)), expected, rtol=1e-9)
    # Directions are those of functions with several arguments.
    if len(place.norms) > 1:
        for norm, white in zip(place.norms, place.whitened, strict=True):
            assert (norm >= np.linalg.norm(white, axis=1)).all()


def test_arguments_of_all_rows_are_kept_once():
    place, _, _ = placed("student_free")
    assert sorted(norm.shape for norm in place.norms) == [(), (), (len(ROWS),)]


def test_no_radius_leaves_everything():
    place, _, _ = placed("heteroscedastic")
    for box in place.boxes(np.inf):
        assert (box.lo == -np.inf).all()
        assert (box.hi == np.inf).all()


def by_hand(rng, m, d, rows):
    """Return a geometry whose odd arguments are the same for all rows, some of them parallel."""
    whitened = [rng.standard_normal((1 if a % 2 else rows, d)) for a in range(m)]
    if m > 2:
        whitened[2] = whitened[0] * rng.choice([-1.0, 1.0, 1e-9], (rows, 1)) + 0.1 * whitened[2]
    norms = [np.linalg.norm(white, axis=1) for white in whitened]
    norms = tuple(norm[0] if len(norm) == 1 else norm for norm in norms)
    return Geometry((Interval.point(0.0),) * m, norms, tuple(whitened))


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_correlations_are_not_underestimated(m, d):
    place = by_hand(np.random.default_rng(m), m, d, 400)
    units = np.stack([
        np.broadcast_to(w / np.linalg.norm(w, axis=1, keepdims=True), (400, d))
        for w in place.whitened
    ], axis=1)  # fmt: skip
    exact = np.linalg.eigvalsh(units @ units.transpose(0, 2, 1))[:, -1]
    bound = np.broadcast_to(place.correlation_norm(), 400)
    assert (bound >= exact * (1.0 - 1e-14)).all()
    assert (bound <= m * (1.0 + 1e-9)).all()
    if m <= 2:
        np.testing.assert_allclose(bound, exact, rtol=1e-9)


def test_an_argument_without_influence_has_no_correlation():
    white = (np.zeros((3, 2)), np.ones((3, 2)))
    place = Geometry((Interval.point(0.0),) * 2, (np.zeros(3), np.full(3, 2.0**0.5)), white)
    np.testing.assert_allclose(place.correlation_norm(), 1.0)


def test_boxes_of_supports():
    rng = np.random.default_rng(2)
    X = np.c_[rng.normal(size=(50, 2)), np.zeros(50)]
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        level = pm.Normal("level")
        s = pm.Normal("s")
        pm.Normal("y", X @ b + level, pm.math.exp(s), observed=rng.normal(size=50))
    (function,) = row_functions(factorize(model, model.value_vars, min_rows=1))
    lower = np.array([-1.0, 0.5, -np.inf, -2.0, -np.inf])
    upper = np.array([2.0, 0.75, np.inf, 1.0, 3.0])
    scale, mean = sorted(
        box_of_support(function, RowData(function, np.arange(50)), lower, upper),
        key=lambda box: box.lo.ndim,
    )
    assert (scale.lo, scale.hi) == (-np.inf, pytest.approx(3.0))
    corners = np.array(np.meshgrid(*zip(lower[:2], upper[:2], strict=True))).reshape(2, -1)
    values = X[:, :2] @ corners
    np.testing.assert_allclose(mean.lo, values.min(axis=1) - 2.0, rtol=1e-9)
    np.testing.assert_allclose(mean.hi, values.max(axis=1) + 1.0, rtol=1e-9)
    assert (mean.lo <= values.min(axis=1) - 2.0).all()
    assert (mean.hi >= values.max(axis=1) + 1.0).all()
