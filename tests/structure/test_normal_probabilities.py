"""Logarithms of normal probabilities of an interval, in every spelling of PyMC."""

import mpmath
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.dist_math import log_diff_normal_cdf, normal_lccdf, normal_lcdf
from pytensor.scalar import basic as scalar

import pymc_minibatch_mh.structure.row_function  # noqa: F401 - registers rules
from model.evaluation import assert_read_rightly, split_of
from pymc_minibatch_mh.bounds.between_tails import mean_density_partials
from pymc_minibatch_mh.bounds.jets import Jets, require_rules
from pymc_minibatch_mh.expressions.graph import Constant, ExprGraph
from pymc_minibatch_mh.expressions.lower import lower_graph
from pymc_minibatch_mh.expressions.patterns import (
    LogBetweenTails,
    is_a,
    is_probability,
    subexpressions,
)
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.model.constant_data import with_double_constants
from pymc_minibatch_mh.structure.row_function import RowData, row_functions
from structure.recomposed import put_together

theta = pt.vector("theta", shape=(4,))
#: The upper end, the lower end, which is below it, and a scale.
high = theta[0]
low = theta[0] - pt.exp(theta[1])
scale = pt.exp(theta[2])


def expression(graph):
    """Return a graph of theta as an expression, and the graph of expressions."""
    exprs = ExprGraph()
    return exprs, np.ravel(lower_graph(exprs, with_double_constants(graph), theta))


def of_error_functions(x, y):
    return pt.log(0.5 * (pt.erf(x / np.sqrt(2.0)) - pt.erf(y / np.sqrt(2.0))))


def of_tails(x, y):
    return pt.log(0.5 * (pt.erfc(y / np.sqrt(2.0)) - pt.erfc(x / np.sqrt(2.0))))


def of_mirrored_tails(x, y):
    return pt.log(0.5 * (pt.erfc(-x / np.sqrt(2.0)) - pt.erfc(-y / np.sqrt(2.0))))


def of_distribution_functions(x, y):
    below = 0.5 * pt.erfc(-y / np.sqrt(2.0))
    return pt.log(0.5 + 0.5 * pt.erf(x / np.sqrt(2.0)) - below)


SPELLINGS = [of_error_functions, of_tails, of_mirrored_tails, of_distribution_functions]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_are_one_expression(spelling):
    graphs = [log_diff_normal_cdf(0, 1, high, low), spelling(high, low)]
    _, (known, other) = expression(pt.stack(graphs))
    assert other is known
    assert sum(is_a(expr, scalar.Switch) for expr in subexpressions(other)) == 1
    assert sum(is_a(expr, LogBetweenTails) for expr in subexpressions(other)) == 1


def test_probabilities_of_all_categories_add_up_to_the_number_one():
    middle = low - pt.exp(theta[3])
    logs = [normal_lccdf(0, 1, high), log_diff_normal_cdf(0, 1, high, low)]
    logs += [log_diff_normal_cdf(0, 1, low, middle), normal_lcdf(0, 1, middle)]
    _, (total, *shares) = expression(pt.exp(pt.stack([pt.logsumexp(logs) * 0.0, *logs])))
    assert all(map(is_probability, shares))
    _, (total, some) = expression(pt.stack([sum(map(pt.exp, logs)), sum(map(pt.exp, logs[:3]))]))
    assert isinstance(total, Constant)
    assert total.value == pytest.approx(1.0, abs=1e-15)
    assert not isinstance(some, Constant)


def rows(cut, **settings):
    x = np.linspace(-3.0, 3.0, cut.size)
    with pm.Model() as model:
        cutpoints = pm.Normal(
            "c", [-1.0, 0.0, 1.0], 2.0, transform=pm.distributions.transforms.ordered
        )
        eta = pm.Normal("b") * x
        pm.OrderedProbit("y", eta, cutpoints, observed=cut, compute_p=False, **settings)
    return model


@pytest.mark.parametrize("shift", [0.0, 3.0, -8.0, 12.0, 25.0, -25.0])
def test_rows_of_an_ordered_probit_are_accurate_in_both_tails(shift):
    model = rows(np.arange(12) % 4)
    parts = split_of(model)
    position = np.array([shift, 0.3, -0.5, 0.7])
    (function,) = row_functions(parts)
    data = RowData(function, slice(0, 12))
    values = [data.coefficients(form, 4) @ position for form in function.arguments]
    boxes = [
        Interval.point(value[0] if form.is_global else value)
        for form, value in zip(function.arguments, values, strict=True)
    ]
    enclosed = Jets(data, boxes, 1).of(function.root)[()]
    computed = put_together(function, position)
    cuts = np.cumsum([position[0], np.exp(0.3), np.exp(-0.5)])
    with mpmath.workdps(60):
        for k, (x, y) in enumerate(zip(np.linspace(-3.0, 3.0, 12), np.arange(12) % 4, strict=True)):
            ends = [-mpmath.inf, *(mpmath.mpf(c) for c in cuts), mpmath.inf]
            eta = mpmath.mpf(0.7 * x)
            truth = float(mpmath.log(normal(ends[y] - eta, ends[y + 1] - eta)))
            assert enclosed.lo[k] <= truth <= enclosed.hi[k]
            assert enclosed.hi[k] - enclosed.lo[k] <= 1e-7 * (1.0 + abs(truth))
            assert computed[k] == pytest.approx(truth, rel=1e-9)


def test_rows_are_those_of_the_model():
    model = rows(np.arange(12) % 4)
    assert_read_rightly(model, split_of(model))


def with_known_outer_ends(shares):
    """Categories between ends of which the outer two are numbers: others have no known order."""
    x, cut = np.linspace(-3.0, 3.0, 30), np.arange(30) % 4
    with pm.Model() as model:
        ends = pt.concatenate([[-1.0], pm.Normal("c", shape=1), [1.3]])
        eta, scale = pm.Normal("b") * x, pm.HalfNormal("sigma")
        if shares is None:
            pm.OrderedProbit("y", eta, ends, scale, observed=cut, compute_p=False)
        else:
            below = pm.math.invprobit((ends - eta[:, None]) / scale)
            parts = [below[:, :1], shares(below[:, 1:] - below[:, :-1]), 1.0 - below[:, -1:]]
            pm.Categorical("y", p=pt.concatenate(parts, axis=1), observed=cut)
    return model


@pytest.mark.parametrize(
    "shares",
    [None, lambda p: p, lambda p: pt.maximum(p, 0.0), lambda p: pt.maximum(0.0, p)],
    ids=["ordered probit", "differences", "cut at zero", "cut at zero, written first"],
)
def test_ends_without_a_known_order_have_bounds(shares):
    model = with_known_outer_ends(shares)
    parts = split_of(model)
    assert_read_rightly(model, parts)
    (function,) = row_functions(parts)
    data, position = RowData(function, slice(0, 30)), np.array([0.2, 0.4, 0.1])
    middles = [np.squeeze(data.coefficients(x, 3) @ position) for x in function.arguments]
    enclosures = Jets(data, [Interval(x - 0.01, x + 0.01) for x in middles], 3).of(function.root)
    assert len(enclosures) > 10
    assert all(np.isfinite(x.magnitude).all() for x in enclosures.values())


@pytest.mark.parametrize("shift", [-4.0, 0.0, 2.5])
@pytest.mark.parametrize("kind", ["ordered probit", "differences"])
def test_derivatives_of_narrow_categories_are_enclosed(kind, shift):
    """Where distribution functions at both ends overlap in the box, and anywhere else."""
    model = with_known_outer_ends(None if kind == "ordered probit" else lambda p: p)
    (function,) = row_functions(split_of(model))
    data, position = RowData(function, slice(0, 30)), np.array([0.2, 0.4 + shift, 0.1])
    middles = [np.squeeze(data.coefficients(x, 3) @ position) for x in function.arguments]
    rng, sizes = np.random.default_rng(1), (0.001, 0.3)
    for size in sizes:
        boxes = [Interval(x - size, x + size) for x in middles]
        enclosed = Jets(data, boxes, 3).of(function.root)
        for _ in range(5):
            inside = [Interval.point(x + size * rng.uniform(-1.0, 1.0)) for x in middles]
            exact = Jets(data, inside, 3).of(function.root)
            for index, value in exact.items():
                finite = np.isfinite(value.magnitude)
                slack = 1e-7 * (1.0 + value.magnitude)
                assert (enclosed[index].lo <= value.hi + slack)[finite].all()
                assert (enclosed[index].hi >= value.lo - slack)[finite].all()


@pytest.mark.parametrize(("start", "width"), [(-3.0, 0.2), (0.1, 1.5), (-0.7, 1.0), (2.0, 3.0)])
def test_partial_derivatives_of_mean_densities_are_enclosed(start, width):
    """Against cumulants by quadrature, inside of a box."""
    x, g = (Interval(np.array([end - 0.05]), np.array([end + 0.05])) for end in (start, width))
    enclosed = mean_density_partials(x, g)

    t, weights = np.polynomial.legendre.leggauss(40)
    t, weights = 0.5 * (t + 1.0), 0.5 * weights
    for u, v in ((start, width), (start - 0.05, width + 0.05), (start + 0.05, width - 0.05)):
        density = weights * np.exp(-((u + t * v) ** 2))
        mean = np.log(density.sum())
        density /= density.sum()
        # Derivatives of -s², and their joint cumulants.
        first = {0: -2.0 * (u + t * v), 1: -2.0 * t * (u + t * v)}
        second = {(0, 0): -2.0 + 0.0 * t, (0, 1): -2.0 * t, (1, 1): -2.0 * t**2}
        away = {k: x - density @ x for k, x in (first | second).items()}
        values = {(): mean} | {(k,): density @ x for k, x in first.items()}
        values |= {
            (i, j): density @ x + density @ (away[i] * away[j]) for (i, j), x in second.items()
        }
        for i, j, k in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)):
            pairs = ((i, (j, k)), (j, (i, k)), (k, (i, j)))
            total = density @ (away[i] * away[j] * away[k])
            values[i, j, k] = total + sum(density @ (away[a] * away[b]) for a, b in pairs)
        for index, interval in enclosed.items():
            assert interval.lo[0] - 1e-9 <= values[index] <= interval.hi[0] + 1e-9, index


def test_wide_boxes_around_narrow_categories_have_bounds():
    """Effects of groups make both ends wide, and leave the width between them."""
    with pm.Model() as model:
        ends = pm.Normal("c", [0.0, 0.1], transform=pm.distributions.transforms.ordered)
        pm.OrderedProbit("y", pm.Normal("b"), ends, observed=np.ones(30, int), compute_p=False)
    (function,) = row_functions(split_of(model))
    data, position = RowData(function, slice(0, 30)), np.array([0.0, -1.0, 0.2])
    middles = [np.squeeze(data.coefficients(x, 3) @ position) for x in function.arguments]
    jet = Jets(data, [Interval(x - 0.4, x + 0.4) for x in middles], 3).of(function.root)
    assert all(np.isfinite(x.magnitude).all() for x in jet.values())


def normal(low, high):
    """Return the probability of an interval, without cancelling."""
    if low > 0:
        return (mpmath.erfc(low / mpmath.sqrt(2)) - mpmath.erfc(high / mpmath.sqrt(2))) / 2
    return (mpmath.erfc(-high / mpmath.sqrt(2)) - mpmath.erfc(-low / mpmath.sqrt(2))) / 2


def declared(kind):
    """Declare ordered categories by cutpoints with ends, or a probit with a scale."""
    x, cut = np.linspace(-3.0, 3.0, 30), np.arange(30) % 4
    with pm.Model() as model:
        own = pm.Normal("c", [-1.0, 0.0, 1.0], 2.0, transform=pm.distributions.transforms.ordered)
        eta, padded = pm.Normal("b") * x, pt.concatenate([[-np.inf], own, [np.inf]])
        if kind in SCALES:
            pm.OrderedProbit("y", eta, own, SCALES[kind](), observed=cut, compute_p=False)
        else:
            of, z = OF[kind], padded - eta[:, None]
            pm.Categorical("y", p=of(z[:, 1:]) - of(z[:, :-1]), observed=cut)
    return model


OF = {
    "padded probit": lambda z: 0.5 * (1.0 + pt.erf(z / np.sqrt(2.0))),
    "padded logit": pm.math.sigmoid,
}
SCALES = {
    "known scale": lambda: 2.5,
    "scale of a third": lambda: 1.0 / 3.0,
    "unknown scale": lambda: pm.HalfNormal("sigma"),
}


@pytest.mark.parametrize("kind", [*OF, *SCALES])
def test_ordered_categories_are_functions_without_checks(kind):
    model = declared(kind)
    parts = split_of(model)
    assert_read_rightly(model, parts)
    (function,) = row_functions(parts)
    require_rules(function)
    assert not any(is_a(expr, scalar.IsInf, scalar.IsNan) for expr in subexpressions(function.root))
