"""Identities are identities: the simplified expression has the value of the plain one."""

import numpy as np
import pytest
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from scipy.special import expit

from expressions.values import Builder, Formula, Formulas, operations, value_of
from pymc_minibatch_mh.expressions import rules as simplify
from pymc_minibatch_mh.expressions.graph import Affine, Constant, ExprGraph, LoweringError
from pymc_minibatch_mh.expressions.impossible_parts import log_of_sum

RNG = np.random.default_rng(23)
POSITION = RNG.normal(scale=1.5, size=(3, 400))
REALS, COUNTS, POSITIVE = RNG.normal(size=400), RNG.integers(0, 7, 400), RNG.gamma(2.0, size=400)
SMALL = RNG.integers(90, 127, 400).astype(np.int8)
HALF = float(np.sqrt(0.5))
COLUMNS = (REALS, COUNTS, POSITIVE, SMALL)


f = Formulas()
u, v, w, x, k, p, s = map(Formula, "uvwxkps")


def both(formula):
    """Return an expression simplified, and as it stands."""
    results = []
    for make in (simplify.apply_operation, lambda exprs, op, *operands: exprs.node(op, operands)):
        exprs = ExprGraph()
        named = {name: exprs.coordinate(k) for k, name in enumerate("uvw")}
        data = enumerate(COLUMNS)
        named |= {"xkps"[k]: exprs.data(k, (), column.dtype) for k, column in data}
        results.append(formula.build(Builder(exprs, make), named))
    return results


def values(expression):
    return [np.broadcast_to(value_of(expr, POSITION, COLUMNS), 400) for expr in both(expression)]


def lower_tail(z):
    """Return the log of a normal distribution function, as PyMC has it."""
    low = f.log(f.erfcx(-HALF * z) / 2.0) - f.sqr(z) / 2.0
    return f.switch(z < -1.0, low, f.log1p(-f.erfc(HALF * z) / 2.0))


def upper_tail(z):
    high = f.log(f.erfcx(HALF * z) / 2.0) - f.sqr(z) / 2.0
    return f.switch(z > 1.0, high, f.log1p(-f.erfc(-HALF * z) / 2.0))


def kept_below_one(z):
    """Return a probability as Bambi writes it."""
    share = f.sigmoid(z)
    return f.switch(f.eq(share, 1.0), 1.0 - 2.0**-52, share)


def lapsing(lapse, p):
    """Return a probability with a lapse rate."""
    return lapse + f.mul(1.0 - 2.0 * lapse, p)


def with_guesses(guess, lapse, p):
    return guess + f.mul(f.add(1.0, -guess, -lapse), p)


def shares_of_three(a, b, c):
    """Return probabilities that add up to one, as PyMC has those of a Dirichlet distribution."""
    largest = f.maximum(f.maximum(a, b), c)
    sizes = [f.exp(part - largest) for part in (a, b, c)]
    return [size / f.add(*sizes) for size in sizes]


# Name -> expression, and the operations that are left of it.
IDENTITIES = {
    "a probability with a lapse rate": (
        f.log(lapsing(f.sigmoid(u), f.sigmoid(x * v))), "Add Mul Softplus"),
    "what a probability with a lapse rate leaves": (
        f.log1p(-lapsing(f.sigmoid(u), 0.5 * f.erfc(x * v))), "Add Mul Softplus LogErfc"),
    "a probability with guesses and lapses": (
        f.log1p(-with_guesses(0.5 * f.sigmoid(u), 0.5 * f.sigmoid(w), f.sigmoid(x * v))),
        "Add Mul Softplus"),
    "guesses and lapses of one": (
        f.log1p(-with_guesses(*shares_of_three(u, v, w)[:2], f.sigmoid(x * v))),
        "Add Mul Softplus"),
    "what two shares of three leave": (
        f.log1p(-f.add(shares_of_three(u, v, w)[0], shares_of_three(u, v, w)[1] * f.sigmoid(u))),
        "Add Mul Softplus"),
    "what a mixture of three leaves": (
        f.log1p(-f.add(*(a * f.sigmoid(b) for a, b in zip(
            shares_of_three(u, v, w), (x * u, 2.0 * v, x - w), strict=True)))),
        "Add Mul Softplus"),
    "a share that is mixed": (
        f.log1p(-lapsing(f.sigmoid(u), 1.0 - f.exp(-f.exp(v)))), "Add Mul Softplus LogAny Exp"),
    "two of a kind": (
        f.log1p(-f.mul(2.0, f.sigmoid(u), 1.0 - f.sigmoid(u))), "Add Mul Softplus"),
    "what may exceed one": (f.log1p(-(f.sigmoid(u) + f.sigmoid(v))), "Log1p Add Mul Sigmoid"),
    "what is not a number": (
        f.switch(f.isnan(f.log(u) * x), v, w), "Switch Invert AND LE GE Mul Log"),
    "what is infinite": (f.switch(f.isinf(f.log(u) / x), v, w), "Switch OR LE GE Mul Log"),
    "a sum is affine": (f.add(u - x, -v, 2.0, u), ""),
    "a scaled sum is affine": (f.mul(x, u + p, -3.0) / p, ""),
    "terms cancel": (f.exp(u) + f.sqr(v) - f.exp(u), "Sqr"),
    "terms add up": (3.0 * f.exp(u) - 0.5 * f.exp(u), "Mul Exp"),
    "exponentials are joined": (f.mul(f.exp(x * u), v, f.exp(f.mul(-2.0, x, u))), "Mul Exp"),
    "exponentials cancel": (f.mul(f.exp(u + x), v, f.exp(-u)), ""),
    "a quotient of exponentials": (f.exp(x * u) / f.exp(p * u), "Exp"),
    "a reciprocal of a product": (f.reciprocal(f.mul(f.exp(u), v, p)), "Mul Exp Reciprocal"),
    "a square of a product": (f.sqr(f.mul(x, v, f.exp(u))), "Mul Exp Sqr"),
    "a repeated factor": (f.mul(v, f.exp(f.sqr(u)), v, v), "Mul Exp Sqr"),
    "a root of an exponential": (f.sqrt(f.exp(u)), "Exp"),
    "powers of an exponential": (f.pow(f.exp(u), x) * f.pow(f.exp(u), 3), "Exp Mul"),
    "powers by number": (f.add(*(f.pow(u, n) for n in (0, 1, 2, -1))), "Add Sqr Reciprocal"),
    "a power of data": (f.pow(p, u), "Exp"),
    "a power of a power": (f.pow(f.exp(u), v), "Exp Mul"),
    "exp2": (f.exp2(x * u), "Exp"),
    "a logarithm of an exponential": (f.log(f.exp(u)), ""),
    "other logarithms": (f.log2(f.exp(u)) + f.log10(f.exp(v)), ""),
    "a logarithm of a product": (
        f.log(f.mul(p, f.exp(u), f.sigmoid(v), f.erfc(w))), "Add Mul Softplus LogErfc"),
    "a logarithm of a reciprocal": (f.log(f.reciprocal(f.sqr(u))), "Mul Log Sqr"),
    "a logarithm of a sum of exponentials": (
        f.log(f.add(f.exp(u), f.exp(v), f.exp(x * w))), "Add Softplus"),
    "a logarithm of one plus an exponential": (
        f.log(f.exp(u) + 1.0) + f.log1p(f.exp(v)), "Add Softplus"),
    "log1p of the rest of a probability": (f.log1p(-f.sigmoid(u)), "Mul Softplus"),
    "log1p of the rest of a normal probability": (f.log1p(-0.5 * f.erfc(0.3 * u)), "Add LogErfc"),
    "both tails of a normal distribution function": (
        lower_tail((x - u) * f.exp(-v)), "LogErfc Add Mul Exp"),
    "both tails of what a normal distribution function leaves": (
        upper_tail((x - u) * f.exp(-v)), "LogErfc Add Mul Exp"),
    "both forms of softplus": (
        f.switch(u > 0.0, u + f.log1p(f.exp(-u)), f.log1p(f.exp(u))), "Softplus"),
    "both forms of log1mexp": (
        f.switch(
            0.0 - f.sqr(u) > -np.log(2.0), f.log(-f.expm1(-f.sqr(u))), f.log1p(-f.exp(-f.sqr(u)))
        ),
        "Log1mexp Mul Sqr",
    ),
    "forms that differ stay a choice": (
        f.switch(u > 0.0, f.log1p(f.exp(-u)), f.log1p(f.exp(u))), "Switch GT Softplus"),
    "the complement of a complement": (f.log1mexp(f.log1mexp(-f.softplus(u))), "Mul Softplus"),
    "the complement of a logistic probability": (f.log1mexp(-f.softplus(p * u)), "Mul Softplus"),
    "the complement of a normal probability": (
        f.log1mexp(f.log(0.5 * f.erfc(0.3 * u))), "Add LogErfc"),
    "the complement of no event": (f.log1mexp(-(p * f.exp(u))), "LogAny"),
    "no event, as the complement of its complement": (
        f.log1mexp(f.log1mexp(-(p * f.exp(u)))), "Mul Exp"),
    "the complement of a choice": (
        f.log1mexp(f.switch(x > 0.0, -f.softplus(u), -np.inf)), "Switch Mul Softplus"),
    "a logarithm of a choice": (
        f.log(f.switch(x > 0.0, f.exp(u), f.sigmoid(v))), "Switch Mul Softplus"),
    "a share between two cutpoints": (
        f.log(f.sigmoid(f.exp(v) + w - u) - f.sigmoid(w - u)), "Add Mul Softplus Exp LogAny"),
    "a share between cutpoints that are further apart": (
        f.log(f.sigmoid(f.add(f.exp(v), f.exp(w), u)) - f.sigmoid(u)),
        "Add Mul Softplus Exp Log1mexp",
    ),
    "a share between cutpoints of unknown order": (
        f.log(f.sigmoid(u + v) - f.sigmoid(u)), "Add Mul Softplus Log1mexp"),
    "a share by the ratio of two logistic probabilities": (
        f.log1mexp(f.softplus(f.exp(v) + w) - f.softplus(f.exp(u) + f.exp(v) + w)),
        "Add Mul Softplus Exp LogAny",
    ),
    "a share by the ratio of two normal probabilities": (
        f.log1mexp(f.log(f.erfc(f.exp(v) + w) / 2.0) - f.log(f.erfc(w) / 2.0)),
        "LogBetweenTails LT LogErfc Log1mexp Add Mul Exp",
    ),
    "a difference of exponentials": (
        f.log(f.exp(-f.exp(u)) - f.exp(-f.exp(u) - f.exp(v))), "Add Mul Exp LogAny"),
    "a share between two survival times": (
        f.log1mexp(f.exp(u) - f.exp(u + f.exp(v))), "Add Exp LogAny"),
    "the complement of a ratio that data may make 0": (
        f.log1mexp(f.switch(x > 0.0, -f.softplus(u), -np.inf) - f.softplus(v)),
        "Switch Add Mul Softplus Log1mexp",
    ),
    "shares are not negative": (
        f.switch(
            f.and_(
                f.sigmoid(f.exp(v) + u) - f.sigmoid(u) >= 0.0,
                f.sigmoid(f.exp(v) + u) - f.sigmoid(u) <= 1.0,
            ),
            w,
            -np.inf,
        ),
        "",
    ),
    "normal shares are not negative": (
        f.switch(
            f.and_(
                0.5 * f.erfc(u) - 0.5 * f.erfc(f.exp(v) + u) >= 0.0,
                0.5 * f.erfc(u) - 0.5 * f.erfc(f.exp(v) + u) <= 1.0,
            ),
            w,
            -np.inf,
        ),
        "",
    ),
    "normal shares of unknown order are compared": (
        f.switch(0.5 * f.erfc(u) - 0.5 * f.erfc(u + v) >= 0.0, w, v), "Switch GE Add Mul Erfc"),
    "shares of unknown order are compared": (
        f.switch(f.sigmoid(u + v) - f.sigmoid(u) >= 0.0, w, v), "Switch GE Add Mul Sigmoid"),
    "waiting for two events": (f.log(f.gammaincc(2.0, f.exp(u))), "Log GammaIncC Exp"),
    "the second largest of several uniform numbers": (
        f.log(f.betainc(f.exp(u), 2.0, f.sigmoid(v))), "Log BetaInc Exp Sigmoid"),
    "what is positive is above zero": (
        f.switch(f.or_(f.exp(u) <= 0.0, f.softplus(v) < 0.0), 1.0, w), ""),
    "what may be above one is compared": (f.switch(f.exp(u) <= 1.0, w, v), "Switch LE Exp"),
    "conditions that decide nothing": (
        f.switch(f.and_(u > v, f.or_(f.exp(u) > 0.0, v > 0.0)), w, v), "Switch GT"),
    "waiting for one event": (f.log(f.gammaincc(1.0, f.exp(u))), "Mul Exp"),
    "the largest of several uniform numbers": (
        f.log(f.betainc(f.exp(u), 1.0, f.sigmoid(v))), "Mul Exp Add LogSoftplus"),
    "an exponential times a softplus": (
        f.mul(x, f.exp(u), f.softplus(v - u), w), "Mul Exp Add LogSoftplus"),
    "a logarithm of a softplus": (
        f.log(f.softplus(u)) + f.exp(f.log(f.softplus(v))), "Add LogSoftplus Softplus"),
    "a complement": (1.0 - f.sigmoid(u), "Sigmoid"),
    "an exponential of a softplus": (f.exp(-f.softplus(x * u)), "Sigmoid"),
    "an exponential of a logarithm": (f.exp(f.log(f.exp(u) + f.softplus(v))), "Add Exp Softplus"),
    "softplus cancels": (p * f.softplus(x * u) + -(p * f.softplus(-(x * u))), ""),
    "softplus cancels the other way round": (f.softplus(-u) - f.softplus(u), ""),
    "probabilities complete each other": (
        f.add(f.mul(p, v, f.sigmoid(u)), x, f.mul(p, v, f.sigmoid(-u))), ""),
    "an interval's transform": (f.sigmoid(u) * 0.7 + (1.0 - f.sigmoid(u)) * 0.2, "Add Mul Sigmoid"),
    "an interval's transform, with the larger number below": (
        f.add(f.sigmoid(u) * -1.0, (1.0 - f.sigmoid(u)) * -3.0, x), "Add Mul Sigmoid"),
    "a ratio of gamma functions": (
        f.gammaln(f.exp(u) + k) - f.gammaln(p + f.exp(u)), "GammaRatio Exp Mul"),
    "a ratio of gamma functions, negative": (
        -2.0 * f.gammaln(f.exp(u) + k) + 2.0 * f.gammaln(f.exp(u)), "GammaRatio Exp Mul"),
    "what cancels with a logarithm": (
        f.mul(p, f.exp(u), f.log1p(f.exp(-u) * f.sqr(x - v))), "Mul Sqr Exp Log1pRatio"),
    "what cancels with a repeated logarithm": (
        f.mul(f.log1p(f.exp(-u) * f.sqr(v)), f.exp(u), f.log1p(f.exp(-u) * f.sqr(v))),
        "Mul Sqr Exp Log1p Log1pRatio",
    ),
    "a part of a sum cancels with a logarithm": (
        f.mul(f.exp(u) + 1.0, f.log1p(f.exp(-u) * f.sqr(v)), x),
        "Add Mul Sqr Exp Log1p Log1pRatio",
    ),
    "a part of a repeated sum cancels with a logarithm": (
        f.mul(f.exp(u) + 1.0, f.exp(u) + 1.0, f.log1p(f.exp(-u) * f.sqr(v))),
        "Add Mul Sqr Exp Log1p Log1pRatio",
    ),
    "nothing cancels with a logarithm of unknown sign": (
        f.exp(u) * f.log1p(f.exp(-u) * v), "Mul Exp Log1p"),
    "a choice that is none": (f.switch(x > 0.0, f.exp(u), f.exp(u + 0.0)), "Exp"),
    "a known sign": (u * f.sign(f.exp(v)), ""),
    "conditions as numbers": (
        f.add((u > v) * x, f.convert_to_int64(u <= x), f.exp(v * (u < v))),
        "Switch GT LE LT Exp Mul Add",
    ),
    "a product of conditions": (f.switch((u > v) * (x > 0.0), u, v), "Switch AND GT"),
    "equality": (f.switch(f.eq(f.maximum(u, x), x), 1.0, v), "Switch AND GE LE Maximum"),
    "inequality": (f.switch(f.neq(f.minimum(u, x), x), 1.0, v), "Switch Invert AND GE LE Minimum"),
    "what is positive is not zero": (f.switch(f.eq(f.exp(u), 0.0), 1.0, v), ""),
    "what is finite is not infinite": (f.switch(f.neq(-f.softplus(u), -np.inf), 1.0, v), ""),
    "the complement of a probability that is kept below one": (
        f.log1p(-kept_below_one(u)), "Mul Softplus"),
    "one and an error function, as in a skewed density": (f.log(1.0 + f.erf(0.3 * u)), "LogErfc"),
    "one less an error function": (f.log(1.0 - f.erf(0.3 * u)), "LogErfc"),
    "a probit of an error function": (f.log(0.5 + 0.5 * f.erf(0.3 * u)), "LogErfc Add"),
    "the complement of such a probit": (f.log1p(-(0.5 + 0.5 * f.erf(0.3 * u))), "LogErfc Add"),
    "another number and an error function": (f.log(1.5 + 0.5 * f.erf(0.3 * u)), "Log Add Mul Erf"),
    "a probability that is kept below one is no more than one": (
        f.switch(kept_below_one(u) <= 1.0, v, w), ""),
    "a probability that is kept below one is not negative": (
        f.switch(kept_below_one(u) >= 0.0, v, w), ""),
    "small types": (
        f.add(f.mul(f.exp(u), s, s), f.sqr(s * v), f.log(s * f.exp(u))), "Add Mul Exp Sqr"),
    "equality at a point": (f.switch(f.eq(f.exp(u) + x * v, 1.0), w, v), "Switch EQ Exp Add"),
    "equality of what shares a parameter": (
        f.switch(f.eq(f.exp(u) * f.softplus(x * u), v), w, u), "Switch EQ Exp Add LogSoftplus"),
    "equality that shares all parameters": (
        f.switch(f.eq(f.sqr(u), f.exp(u) * x), w, u), "Switch AND GE LE Sqr Exp Mul"),
    "a limit where two are equal": (
        f.switch(f.eq(f.exp(k * u), 1.0), 0.0, x * (f.exp(k * u) - 1.0)), "Mul Add Exp"),
    "no limit where a factor may be infinite": (
        f.switch(f.eq(f.exp(k * u), 1.0), 0.0, f.log(f.sqr(k * u)) * (f.exp(k * u) - 1.0)),
        "Switch AND GE LE Mul Add Exp Log Sqr",
    ),
    "no limit where the difference is another": (
        f.switch(f.eq(f.exp(k * u), 2.0), 0.0, x * (f.exp(k * u) - 1.0)),
        "Switch AND GE LE Mul Add Exp",
    ),
    "a saturation curve": (
        f.mul(f.exp(u), f.exp(f.exp(v) * x)) / f.add(f.exp(f.exp(v) * w), f.exp(f.exp(v) * x)),
        "Add Mul Exp Sigmoid"),
    "saturation in data of unknown sign": (
        f.mul(3.0, u, p) / (f.exp(v) + p), "Switch Add Mul Exp Reciprocal Sigmoid"),
    "saturation in data, of several": (
        f.mul(u, f.exp(p)) / f.add(f.exp(v), f.exp(w), f.exp(p)), "Add Mul Sigmoid Softplus"),
    "a decreasing curve": (u / (1.0 + f.exp(k * v)), "Mul Sigmoid"),
    "a quotient by a shape and a number": (u / (1.0 + f.exp(v)), "Mul Add Exp Reciprocal"),
    "saturation in data that may be zero": (
        f.mul(u, f.pow(f.switch(x > 0.0, x, 0.0), f.exp(v)))
        / (f.exp(w) + f.pow(f.switch(x > 0.0, x, 0.0), f.exp(v))),
        "Switch Add Mul Exp Sigmoid"),
    "equality of a product with data": (f.switch(f.eq(k * u, 0.0), 1.0, v), "Switch AND GE LE"),
}  # fmt: skip
# Where the plain expression has no value, these have none either.
UNDEFINED = {
    "a product of two of unknown sign": f.log(f.mul(u, v, f.exp(w))),
    "a product with negative data": f.log(x * f.exp(w)),
    "a logarithm raised again": f.exp(f.log(u)),
    "a logarithm of a sum": f.log(f.exp(u) + v),
    "a logarithm of a difference of exponentials": f.log(f.exp(u) - f.exp(v)),
    "a share of unknown order": f.log(f.sigmoid(u) - f.sigmoid(v)),
    "a root of a square root": f.sqr(f.sqrt(u)),
    "a broken power": f.pow(2.0 * u, 0.5),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_an_identity_keeps_the_value_and_leaves_what_it_should(name):
    expression, left = IDENTITIES[name]
    simplified, plain = values(expression)
    known = np.isfinite(plain)
    assert known.mean() > 0.4
    np.testing.assert_allclose(simplified[known], plain[known], rtol=1e-9, atol=1e-8)
    assert operations(both(expression)[0]) == {*left.split()}


@pytest.mark.parametrize("name", UNDEFINED)
def test_what_is_undefined_stays_undefined(name):
    simplified, plain = values(UNDEFINED[name])
    assert 0.1 < np.isnan(plain).mean() < 0.9
    np.testing.assert_allclose(simplified, plain, rtol=1e-9)


def test_data_are_left_in_their_own_types():
    simplified, plain = both(s + s * s)
    assert simplified.dtype == plain.dtype == np.int8
    expected = SMALL + SMALL * SMALL
    np.testing.assert_array_equal(value_of(simplified, POSITION, COLUMNS), expected)


def log_weights(f, u, v, x):
    impossible = f.switch(f.gt(x, 0.0), f.mul(x, u), -np.inf)
    in_data = f.add(1.5, f.switch(f.gt(x, -0.5), -np.inf, x))
    parts = [impossible, v, f.add(impossible, v), f.switch(f.gt(x, 0.5), -np.inf, u)]
    return [*parts, f.add(u, in_data)]


@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (0, 3, 2, 1), (1, 4), (4, 1, 0), (3, 4)]
)
def test_a_sum_of_logarithms_may_have_impossible_parts(order):
    exprs = ExprGraph()
    f = Builder(exprs, simplify.apply_operation)
    x = exprs.data(0, ())
    parts = log_weights(f, exprs.coordinate(0), exprs.coordinate(1), x)
    parts += [f.expr(-np.inf), f.expr(-1.5)]
    chosen = [*(parts[k] for k in order), *parts[-2:]]
    total = log_of_sum(exprs, chosen)
    found = value_of(total, POSITION, COLUMNS)
    plain = [np.broadcast_to(value_of(part, POSITION, COLUMNS), 400) for part in chosen]
    np.testing.assert_allclose(found, np.logaddexp.reduce(plain), rtol=1e-9)


def test_branches_that_are_possible_together_keep_their_condition():
    """A condition of data alone, whatever the branch is chosen by: its bounds are tight."""
    exprs = ExprGraph()
    f = Builder(exprs, simplify.apply_operation)
    u, v, x = exprs.coordinate(0), exprs.coordinate(1), exprs.data(0, ())
    branches = [f.switch(f.gt(x, 0.0), one, -np.inf) for one in (f.mul(x, u), f.exp(v))]
    choice = f.switch(f.gt(f.exp(u), 1.0), *branches)
    total = log_of_sum(exprs, [choice])
    assert total.inputs[0].is_data
    plain = value_of(choice, POSITION, COLUMNS)
    np.testing.assert_array_equal(value_of(total, POSITION, COLUMNS), plain)


def test_impossible_data_have_no_weight():
    exprs = ExprGraph()
    u, x = exprs.coordinate(0), exprs.data(0, ())
    columns = (np.where(REALS > 0.0, -np.inf, REALS),)
    for parts in ([x, u, x], [u, x, x], [x, x, u]):
        total = value_of(log_of_sum(exprs, parts), POSITION, columns)
        plain = [np.broadcast_to(value_of(part, POSITION, columns), 400) for part in parts]
        np.testing.assert_allclose(total, np.logaddexp.reduce(plain), rtol=1e-9)


@pytest.mark.parametrize(
    "expression",
    [
        f.convert_to_int64(u),
        f.convert_to_bool(u),
        f.convert_to_float32(u),
        f.floor(u),
        f.mod(u, v),
        f.int_div(u, v),
        (u > v) + (v > u),
        f.maximum(u > v, v > u),
        f.xor(u > v, v > u),
        f.exp(u > v),
        s - (u > v),
    ],
)
def test_what_leaves_the_reals_is_refused(expression):
    with pytest.raises(LoweringError):
        both(expression)


def test_a_parameter_is_a_number():
    exprs = ExprGraph()
    u = exprs.coordinate(0)
    for op in (scalar.isnan, scalar.isinf):
        assert simplify.apply_operation(exprs, op, u) is exprs.constant(False)


def test_equal_products_are_one_cell():
    exprs = ExprGraph()
    f = Builder(exprs, simplify.apply_operation)
    a, b = f.sqr(exprs.coordinate(0)), f.softplus(exprs.coordinate(1))
    x = exprs.data(0, ())
    assert f.mul(a, x, b) is f.mul(f.mul(b, a), x) is f.mul(f.mul(x, b), a)
    assert f.mul(1.0, f.mul(a, b, b)) is f.mul(a, b, b)


def test_numbers_and_affine_cells_stay_what_they_are():
    simplified, _ = both(2.0 * (u - u))
    assert isinstance(simplified, Constant)
    assert simplified.value == 0.0
    simplified, _ = both(x * (u - v))
    assert isinstance(simplified, Affine)


@pytest.mark.parametrize(("low", "high"), [(0.2, 0.7), (-3.0, -1.0), (-1e9, 1e-3), (-1e-3, 1e9)])
def test_an_interval_keeps_its_digits_where_it_is_near_zero(low, high):
    exprs = ExprGraph()
    u = exprs.coordinate(0)
    f = Builder(exprs, simplify.apply_operation)
    share = f.sigmoid(u)
    folded = f.add(f.mul(share, high), f.mul(f.sub(1.0, share), low))
    assert operations(folded) == {"Add", "Mul", "Sigmoid"}
    z = np.linspace(-60.0, 60.0, 241)
    parts = np.stack([expit(z) * high, expit(-z) * low])
    lost = 4.0 * np.finfo(float).eps * np.abs(parts).sum(axis=0)
    assert (np.abs(value_of(folded, z[None]) - parts.sum(axis=0)) <= lost).all()


def normal_cdf(exprs, z):
    """Return the logarithm of the normal distribution function as PyMC writes it: by a switch."""

    def apply(op, *operands):
        return simplify.apply_operation(exprs, op, *operands)

    half, low, root = (exprs.constant(value) for value in (0.5, -1.0, -HALF))
    inner = apply(scalar.mul, z, root)
    tail = apply(scalar.log, apply(scalar.mul, half, apply(scalar_math.erfcx, inner)))
    square = apply(scalar.mul, exprs.constant(-0.5), apply(scalar.sqr, z))
    above = apply(scalar.log, apply(scalar.mul, half, apply(scalar_math.erfc, inner)))
    below = apply(scalar.add, tail, square)
    return apply(scalar.switch, apply(scalar.lt, z, low), below, above)


@pytest.mark.parametrize(
    "given", [0.7, 0.37, "row", "free"], ids=["a number", "another number", "one a row", "free"]
)
@pytest.mark.parametrize("sums", [False, True])
def test_branches_of_multiples_are_equal(given, sums):
    exprs = ExprGraph()
    u, v, w = map(exprs.coordinate, range(3))
    data, scale = exprs.data(0, ()), exprs.data(1, ())

    def apply(op, *operands):
        return simplify.apply_operation(exprs, op, *operands)

    sd = {"row": scale, "free": apply(scalar.exp, w)}.get(given) or exprs.constant(given)
    terms = [u, apply(scalar.mul, exprs.constant(3.7), data, v), exprs.constant(0.1)]
    if sums:
        terms.append(apply(scalar.mul, exprs.constant(1.1), apply(scalar.exp, w)))
    z = apply(scalar.true_div, apply(scalar.sub, data, apply(scalar.add, *terms)), sd)
    assert "Switch" not in operations(normal_cdf(exprs, z))


def test_a_power_of_zero_has_derivatives():
    """0^h is 0 for every h > 0, as the response to a dose of zero, and so are its derivatives."""
    exprs, h = ExprGraph(), np.full((1, 3), 0.3)
    f, dose = Builder(exprs, simplify.apply_operation), exprs.data(0, ())
    size, doses = f.exp(exprs.coordinate(0)), np.array([0.0, 0.5, 3.0])
    for base, factor in ((dose, 1.0), (f.mul(dose, size), np.exp(0.3))):
        power = f.pow(base, size)
        np.testing.assert_allclose(value_of(power, h, [doses]), (factor * doses) ** np.exp(0.3))
        assert "Switch" in operations(power)
    exprs.positive.add(dose)
    size = f.exp(exprs.coordinate(1))
    for base in (dose, f.mul(dose, size)):
        assert "Switch" not in operations(f.pow(base, size))


def test_positive_data_decide_conditions():
    """As the test of a distribution of positive numbers, whose value is data."""
    exprs = ExprGraph()
    f, u, time = Builder(exprs, simplify.apply_operation), exprs.coordinate(0), exprs.data(0, ())
    assert "Switch" in operations(f.switch(f.le(time, 0.0), -np.inf, u))
    exprs.positive.add(time)
    assert f.switch(f.le(time, 0.0), -np.inf, u) is u
    assert f.switch(f.gt(time, 0.0), u, -np.inf) is u
