"""Numbers that PyTensor would compute in single precision are computed in double precision."""

import mpmath as mp
import numpy as np
import pytensor.tensor as pt
import pytest
from pymc.distributions.dist_math import normal_lcdf
from pytensor.graph.traversal import ancestors

from model.evaluation import evaluate
from pymc_minibatch_mh.model.constant_data import with_double_constants

x = pt.dvector("x")
z = pt.fvector("z")
POINTS = np.array([-30.0, -4.0, -1.5, -1.0, -0.9, 0.0, 1.0, 5.0])


def exact(point):
    with mp.workdps(40):
        return float(mp.log(mp.erfc(-mp.mpf(point) / mp.sqrt(2)) / 2))


def test_a_normal_distribution_function_is_precise():
    graph = with_double_constants(normal_lcdf(0.0, 1.0, x))
    expected = [exact(point) for point in POINTS]
    np.testing.assert_allclose(evaluate([x], graph, [POINTS]), expected, rtol=1e-13)
    # The test would not notice a change that is none, if PyMC did not need it.
    plain = evaluate([x], normal_lcdf(0.0, 1.0, x), [POINTS])
    assert np.max(np.abs(plain / expected - 1.0)) > 1e-9


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (lambda: pt.sqrt(2.0), 2.0**0.5),
        (lambda: pt.sqrt(2), 2.0**0.5),
        (lambda: pt.log(pt.sqrt(3.0) + 0.5), np.log(3.0**0.5 + 0.5)),
        (lambda: pt.exp(pt.as_tensor([[0.5]]).astype("float32"))[0, 0], None),
    ],
)
def test_numbers(number, expected):
    found = float(evaluate([x], with_double_constants(x * number()), [np.ones(1)])[0])
    if expected is None:
        assert found == float(np.exp(np.float32(0.5)))
    else:
        assert found == pytest.approx(expected, rel=1e-15)


def test_what_the_model_has_in_single_precision_stays():
    root = pt.sqrt(2.0)
    graph = with_double_constants((z * root).astype("float64") + x * root + x * pt.sqrt(3.0))
    found = evaluate([x, z], graph, [np.ones(1), np.ones(1, dtype=np.float32)])[0]
    assert found == pytest.approx(float(np.float32(2.0**0.5)) + 2.0**0.5 + 3.0**0.5, rel=1e-15)


@pytest.mark.parametrize(
    "weight",
    [
        lambda: 0.75 - pt.lt(x, 0),
        lambda: -(0.75 - pt.lt(x, 0)),
        lambda: pt.switch(pt.lt(x, 0), -0.5, 0.75),
        lambda: pt.exp(0.5 * pt.lt(x, 0)),
    ],
)
def test_numbers_beside_conditions_are_no_single_precision(weight):
    """PyTensor takes 0.75 for a number of single precision, but 0.7 for one of double."""
    assert weight().dtype == "float32"
    graph = with_double_constants(x * weight())
    dtypes = {v.type.dtype for v in ancestors([graph])}
    assert "float32" not in dtypes
    plain = evaluate([x], x * weight(), [POINTS])
    np.testing.assert_allclose(evaluate([x], graph, [POINTS]), plain, rtol=1e-7)


def test_integers_in_single_precision_stay():
    graph = with_double_constants(x * pt.exp(pt.lt(x, 0)) * (0.5 * z))
    assert "float32" in {v.type.dtype for v in ancestors([graph])}


@pytest.mark.parametrize("exact", [2.0**0.5, 3.0**-0.5, np.log(0.5), -(2.0**0.5)])
def test_numbers_that_were_folded_are_read_in_double(exact):
    single = np.float32(exact)
    for folded in (single, float(single), np.full((1, 1), float(single))):
        found = evaluate([x], with_double_constants(x * pt.constant(folded)), [np.ones(1)])[0]
        assert np.ravel(found)[0] == exact
    reciprocal = evaluate([x], with_double_constants(x * (1.0 / float(single))), [np.ones(1)])[0]
    assert reciprocal == 1.0 / exact
    for other in (exact, float(np.float32(0.3)), 0.3, 2.0, 0.5):
        graph = x * other
        assert with_double_constants(graph) is graph
