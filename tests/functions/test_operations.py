"""Operations: on data, in pickles and in compiled graphs, and their derivatives."""

import pickle
import sys

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.utils import MethodNotDefined
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.tensor.elemwise import Elemwise
from scipy import special

from pymc_minibatch_mh.functions import base, gamma
from pymc_minibatch_mh.functions.base import Function, numpy_function, scalar_output_type
from pymc_minibatch_mh.functions.gamma_ratio import gamma_ratio
from pymc_minibatch_mh.functions.gamma_rise import gamma_rise, gamma_rise_at, gamma_rise_slope_at
from pymc_minibatch_mh.functions.log1p_ratio import log1p_ratio
from pymc_minibatch_mh.functions.log_add_exp import log_add_exp
from pymc_minibatch_mh.functions.log_any import log_any, log_any_at
from pymc_minibatch_mh.functions.log_erfc import log_erfc
from pymc_minibatch_mh.functions.log_i0e import log_i0e
from pymc_minibatch_mh.functions.log_softplus import log_softplus
from pymc_minibatch_mh.functions.log_sum_exp import log_sum_exp, log_sum_exp_at

TYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float32", "float64"]
ARRAYS = {dtype: np.array([0, 1, 1, 0, 1]).astype(dtype) for dtype in TYPES}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "op",
    [
        scalar.exp,
        scalar.log1p,
        scalar.reciprocal,
        scalar.sqrt,
        scalar_math.sigmoid,
        scalar_math.softplus,
        scalar_math.gammaln,
        scalar.convert_to_float32,
        scalar.convert_to_int8,
    ],
    ids=str,
)
def test_functions_of_data_have_the_types_of_pytensor(op, dtype):
    with np.errstate(all="ignore"):
        found = numpy_function(op)(ARRAYS[dtype])
        exact = numpy_function(op)(ARRAYS[dtype].astype("float64"))
    assert found.dtype == scalar_output_type(op, np.dtype(dtype)) != np.float16
    np.testing.assert_allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize("left", TYPES)
@pytest.mark.parametrize("right", TYPES)
@pytest.mark.parametrize("op", [scalar.add, scalar.mul, scalar.true_div, scalar.lt], ids=str)
def test_arithmetic_with_data_has_the_types_of_pytensor(op, left, right):
    with np.errstate(all="ignore"):
        found = numpy_function(op)(ARRAYS[left], ARRAYS[right])
    assert found.dtype == scalar_output_type(op, np.dtype(left), np.dtype(right))


def test_small_integers_overflow_as_in_the_model():
    many = np.array([100, 120], dtype=np.int8)
    np.testing.assert_array_equal(numpy_function(scalar.add)(many, many, many), many + many + many)
    wide = numpy_function(scalar.add)(many, many, many.astype(float))
    np.testing.assert_array_equal(wide, 3.0 * many)


def test_logarithms_of_sums_of_many_exponentials_are_evaluated_on_arrays():
    """NumPy's functions of functions take 63 operands."""
    x = np.random.default_rng(1).normal(scale=300.0, size=(80, 5))
    x[3], x[:, 4] = -np.inf, -np.inf
    for found in (numpy_function(log_sum_exp)(*x), [log_sum_exp_at(*row) for row in x.T]):
        np.testing.assert_allclose(found, special.logsumexp(x, axis=0), rtol=1e-14)


def test_other_functions_of_data():
    x = np.linspace(-2.0, 2.0, 7)
    np.testing.assert_array_equal(numpy_function(scalar.clip)(x, -1.0, 1.5), np.clip(x, -1.0, 1.5))
    np.testing.assert_array_equal(numpy_function(scalar.second)(x, 3.0), np.full(7, 3.0))
    np.testing.assert_array_equal(
        numpy_function(scalar.switch)(x > 0, x, -1), np.where(x > 0, x, -1.0)
    )
    np.testing.assert_array_equal(numpy_function(scalar.identity)(x), x)
    np.testing.assert_allclose(
        numpy_function(scalar_math.tri_gamma)(x + 3), special.polygamma(1, x + 3)
    )
    np.testing.assert_allclose(
        numpy_function(log_add_exp)(x, np.full(7, -np.inf)), x, err_msg="-inf has no weight"
    )


@pytest.mark.parametrize("made", sorted(Function.__subclasses__(), key=str))
def test_operations_are_found_again_by_their_names(made):
    module = sys.modules[made.__module__]
    op = made(scalar.upgrade_to_float)
    assert getattr(module, made.__name__) is made
    assert pickle.loads(pickle.dumps(op)) == op


@pytest.mark.parametrize(
    ("op", "data"),
    [
        (log_erfc, ()),
        (log_any, ()),
        (log_i0e, ()),
        (log_softplus, ()),
        (log1p_ratio, ()),
        (gamma_ratio, (3.0, 0.5)),
        (gamma_rise, (4.0, 0.0)),
    ],
    ids=str,
)
def test_pytensor_differentiates_and_compiles_operations(op, data):
    x = pt.dscalar("x")
    orders = [Elemwise(op)(x, *map(np.float64, data))]
    for _ in range(3):
        orders.append(pt.grad(orders[-1], x))
    function = pytensor.function([x], orders)
    for here in (0.05, 0.6, 3.0, 30.0):
        step = 1e-5 * here
        low, mid, high = (np.array(function(z)) for z in (here - step, here, here + step))
        slopes = (high - low) / (2.0 * step)
        assert mid[1:] == pytest.approx(slopes[:-1], rel=1e-5, abs=1e-8 * abs(mid[0])), here


def test_what_has_no_derivative_is_told():
    x, y = scalar.float64("x"), scalar.float64("y")
    with pytest.raises(MethodNotDefined):
        base.value_and_slopes(log_add_exp, [x, y])


def test_names_on_disk_know_the_sources_of_all_that_is_compiled_in(tmp_path):
    names = [base._kernel_key.__wrapped__(kernel) for kernel in (gamma_rise_at, log_any_at)]
    other = tmp_path / "log1p_ratio.py"
    other.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[log1p_ratio.__module__], "__file__", str(other))
        changed = [base._kernel_key.__wrapped__(kernel) for kernel in (gamma_rise_at, log_any_at)]
    assert changed[0] != names[0]
    assert changed[1] == names[1]


@pytest.mark.parametrize("y", [0.5, 3.0, 40.0])
def test_kernels_give_in_python_what_they_give_when_compiled(y):
    points = [np.float64(x) for x in (0.0, 1e-9, 0.03, 1.0, 50.0)]
    for kernel, *order in ((gamma_rise_at,), (gamma_rise_slope_at, 1), (gamma_rise_slope_at, 2)):
        found = [base.in_python(kernel)(*order, x, y, 0.0) for x in points]
        exact = [kernel(*order, x, y, 0.0) for x in points]
        np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_polygamma_functions_are_those_of_scipy(order):
    points = np.geomspace(1e-8, 1e8, 500)
    ours = np.array([gamma.polygamma(order, x) for x in points])
    assert np.abs(ours / special.polygamma(order, points) - 1.0).max() < 1e-13
