import numpy as np
import pytest

from bounds.certified import Rows, fit
from pymc_minibatch_mh.bounds.geometry import Geometry, geometry_of_rows
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.structure.row_function import RowData

#: One argument, two, three of which two are the same for all rows, four with an index.
FAMILIES = ["binomial", "heteroscedastic", "student_free", "noncentred"]
every_family = pytest.mark.parametrize("name", FAMILIES)
ROWS = np.arange(0, 2_000, 23)


def placed(name):
    fitted = fit(name, 2_000)
    reference = fitted.reference(2)
    rows = Rows(fitted.functions[0], ROWS, fitted.factorization.size)
    data = RowData(rows.function, ROWS)
    place = geometry_of_rows(data, reference.centre, reference.factor)
    return place, rows, reference


@every_family
@pytest.mark.parametrize("radius", [0.01, 3.0, 9.0])
def test_boxes_hold_the_arguments_of_all_positions(name, radius):
    """Of positions on and in the trust region."""
    place, rows, reference = placed(name)
    rng, boxes = np.random.default_rng(1), place.argument_boxes(radius)
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
    for a, (matrix, box) in enumerate(zip(rows.matrices, place.argument_boxes(2.0), strict=True)):
        whitened = matrix @ reference.factor
        direction = whitened / np.linalg.norm(whitened, axis=1, keepdims=True)
        for sign, end in ((1.0, box.hi), (-1.0, box.lo)):
            positions = reference.centre + 2.0 * sign * direction @ reference.factor.T
            np.testing.assert_allclose(rows.arguments(positions)[a] - end, 0.0, atol=1e-9)


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
