"""Identities are identities: the simplified expression has the value of the plain one."""

import numpy as np
import pytest
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from scipy.special import expit

from every import every
from model.row.expressions import Builder, operations, value_of
from pymc_minibatch_mh.model.row import arithmetic, logic, patterns, probability, simplify
from pymc_minibatch_mh.model.row.cells import Affine, Cells, Constant, LoweringError
from pymc_minibatch_mh.model.row.operations import log_any, log_erfc

RNG = np.random.default_rng(23)
POSITION = RNG.normal(scale=1.5, size=(3, 400))
REALS, COUNTS, POSITIVE = RNG.normal(size=400), RNG.integers(0, 7, 400), RNG.gamma(2.0, size=400)
SMALL = RNG.integers(90, 127, 400).astype(np.int8)
HALF = float(np.sqrt(0.5))
COLUMNS = (REALS, COUNTS, POSITIVE, SMALL)


def both(expression):
    """Return an expression simplified, and as it stands."""
    results = []
    for make in (simplify.apply, lambda cells, op, *operands: cells.node(op, operands)):
        cells = Cells()
        u, v, w = (cells.coordinate(k) for k in range(3))
        data = [cells.data(k, (), column.dtype) for k, column in enumerate(COLUMNS)]
        results.append(expression(Builder(cells, make), u, v, w, *data))
    return results


def values(expression):
    return [np.broadcast_to(value_of(cell, POSITION, COLUMNS), 400) for cell in both(expression)]


def lower_tail(f, z):
    """Return the log of a normal distribution function, as PyMC has it."""
    low = f.sub(f.log(f.true_div(f.erfcx(f.mul(-HALF, z)), 2.0)), f.true_div(f.sqr(z), 2.0))
    return f.switch(f.lt(z, -1.0), low, f.log1p(f.true_div(f.neg(f.erfc(f.mul(HALF, z))), 2.0)))


def upper_tail(f, z):
    high = f.sub(f.log(f.true_div(f.erfcx(f.mul(HALF, z)), 2.0)), f.true_div(f.sqr(z), 2.0))
    return f.switch(f.gt(z, 1.0), high, f.log1p(f.true_div(f.neg(f.erfc(f.mul(-HALF, z))), 2.0)))


def kept_below_one(f, z):
    """Return a probability as Bambi writes it."""
    share = f.sigmoid(z)
    return f.switch(f.eq(share, 1.0), 1.0 - 2.0**-52, share)


# Name -> expression, and the operations that are left of it.
IDENTITIES = {
    "a sum is affine": (lambda f, u, v, w, x, k, p, s: f.add(f.sub(u, x), f.neg(v), 2.0, u), set()),
    "a scaled sum is affine": (
        lambda f, u, v, w, x, k, p, s: f.true_div(f.mul(x, f.add(u, p), -3.0), p),
        set(),
    ),
    "terms cancel": (
        lambda f, u, v, w, x, k, p, s: f.sub(f.add(f.exp(u), f.sqr(v)), f.exp(u)),
        {"Sqr"},
    ),
    "terms add up": (
        lambda f, u, v, w, x, k, p, s: f.sub(f.mul(3.0, f.exp(u)), f.mul(0.5, f.exp(u))),
        {"Mul", "Exp"},
    ),
    "exponentials are joined": (
        lambda f, u, v, w, x, k, p, s: f.mul(f.exp(f.mul(x, u)), v, f.exp(f.mul(-2.0, x, u))),
        {"Mul", "Exp"},
    ),
    "exponentials cancel": (
        lambda f, u, v, w, x, k, p, s: f.mul(f.exp(f.add(u, x)), v, f.exp(f.neg(u))),
        set(),
    ),
    "a quotient of exponentials": (
        lambda f, u, v, w, x, k, p, s: f.true_div(f.exp(f.mul(x, u)), f.exp(f.mul(p, u))),
        {"Exp"},
    ),
    "a reciprocal of a product": (
        lambda f, u, v, w, x, k, p, s: f.reciprocal(f.mul(f.exp(u), v, p)),
        {"Mul", "Exp", "Reciprocal"},
    ),
    "a square of a product": (
        lambda f, u, v, w, x, k, p, s: f.sqr(f.mul(x, v, f.exp(u))),
        {"Mul", "Exp", "Sqr"},
    ),
    "a repeated factor": (
        lambda f, u, v, w, x, k, p, s: f.mul(v, f.exp(f.sqr(u)), v, v),
        {"Mul", "Exp", "Sqr"},
    ),
    "a root of an exponential": (lambda f, u, v, w, x, k, p, s: f.sqrt(f.exp(u)), {"Exp"}),
    "powers of an exponential": (
        lambda f, u, v, w, x, k, p, s: f.mul(f.pow(f.exp(u), x), f.pow(f.exp(u), 3)),
        {"Exp", "Mul"},
    ),
    "powers by number": (
        lambda f, u, v, w, x, k, p, s: f.add(*(f.pow(u, n) for n in (0, 1, 2, -1))),
        {"Add", "Sqr", "Reciprocal"},
    ),
    "a power of data": (lambda f, u, v, w, x, k, p, s: f.pow(p, u), {"Exp"}),
    "a power of a power": (
        lambda f, u, v, w, x, k, p, s: f.pow(f.exp(u), v),
        {"Exp", "Mul"},
    ),
    "exp2": (lambda f, u, v, w, x, k, p, s: f.exp2(f.mul(x, u)), {"Exp"}),
    "a logarithm of an exponential": (lambda f, u, v, w, x, k, p, s: f.log(f.exp(u)), set()),
    "other logarithms": (
        lambda f, u, v, w, x, k, p, s: f.add(f.log2(f.exp(u)), f.log10(f.exp(v))),
        set(),
    ),
    "a logarithm of a product": (
        lambda f, u, v, w, x, k, p, s: f.log(f.mul(p, f.exp(u), f.sigmoid(v), f.erfc(w))),
        {"Add", "Mul", "Softplus", "LogErfc"},
    ),
    "a logarithm of a reciprocal": (
        lambda f, u, v, w, x, k, p, s: f.log(f.reciprocal(f.sqr(u))),
        {"Mul", "Log", "Sqr"},
    ),
    "a logarithm of a sum of exponentials": (
        lambda f, u, v, w, x, k, p, s: f.log(f.add(f.exp(u), f.exp(v), f.exp(f.mul(x, w)))),
        {"Add", "Softplus"},
    ),
    "a logarithm of one plus an exponential": (
        lambda f, u, v, w, x, k, p, s: f.add(f.log(f.add(f.exp(u), 1.0)), f.log1p(f.exp(v))),
        {"Add", "Softplus"},
    ),
    "log1p of the rest of a probability": (
        lambda f, u, v, w, x, k, p, s: f.log1p(f.neg(f.sigmoid(u))),
        {"Mul", "Softplus"},
    ),
    "log1p of the rest of a normal probability": (
        lambda f, u, v, w, x, k, p, s: f.log1p(f.mul(-0.5, f.erfc(f.mul(0.3, u)))),
        {"Add", "LogErfc"},
    ),
    "both tails of a normal distribution function": (
        lambda f, u, v, w, x, k, p, s: lower_tail(f, f.mul(f.sub(x, u), f.exp(f.neg(v)))),
        {"LogErfc", "Add", "Mul", "Exp"},
    ),
    "both tails of what a normal distribution function leaves": (
        lambda f, u, v, w, x, k, p, s: upper_tail(f, f.mul(f.sub(x, u), f.exp(f.neg(v)))),
        {"LogErfc", "Add", "Mul", "Exp"},
    ),
    "both forms of softplus": (
        lambda f, u, v, w, x, k, p, s: f.switch(
            f.gt(u, 0.0), f.add(u, f.log1p(f.exp(f.neg(u)))), f.log1p(f.exp(u))
        ),
        {"Softplus"},
    ),
    "both forms of log1mexp": (
        lambda f, u, v, w, x, k, p, s: f.switch(
            f.gt(f.sub(0.0, f.sqr(u)), -np.log(2.0)),
            f.log(f.neg(f.expm1(f.neg(f.sqr(u))))),
            f.log1p(f.neg(f.exp(f.neg(f.sqr(u))))),
        ),
        {"Log1mexp", "Mul", "Sqr"},
    ),
    "forms that differ stay a choice": (
        lambda f, u, v, w, x, k, p, s: f.switch(
            f.gt(u, 0.0), f.log1p(f.exp(f.neg(u))), f.log1p(f.exp(u))
        ),
        {"Switch", "GT", "Softplus"},
    ),
    "the complement of a complement": (
        lambda f, u, v, w, x, k, p, s: f.log1mexp(f.log1mexp(f.neg(f.softplus(u)))),
        {"Mul", "Softplus"},
    ),
    "the complement of a logistic probability": (
        lambda f, u, v, w, x, k, p, s: f.log1mexp(f.neg(f.softplus(f.mul(p, u)))),
        {"Mul", "Softplus"},
    ),
    "the complement of a normal probability": (
        lambda f, u, v, w, x, k, p, s: f.log1mexp(f.log(f.mul(0.5, f.erfc(f.mul(0.3, u))))),
        {"Add", "LogErfc"},
    ),
    "the complement of no event": (
        lambda f, u, v, w, x, k, p, s: f.log1mexp(f.neg(f.mul(p, f.exp(u)))),
        {"LogAny"},
    ),
    "no event, as the complement of its complement": (
        lambda f, u, v, w, x, k, p, s: f.log1mexp(f.log1mexp(f.neg(f.mul(p, f.exp(u))))),
        {"Mul", "Exp"},
    ),
    "the complement of a choice": (
        lambda f, u, v, w, x, k, p, s: f.log1mexp(
            f.switch(f.gt(x, 0.0), f.neg(f.softplus(u)), -np.inf)
        ),
        {"Switch", "Mul", "Softplus"},
    ),
    "a logarithm of a choice": (
        lambda f, u, v, w, x, k, p, s: f.log(f.switch(f.gt(x, 0.0), f.exp(u), f.sigmoid(v))),
        {"Switch", "Mul", "Softplus"},
    ),
    "a share between two cutpoints": (
        lambda f, u, v, w, x, k, p, s: f.log(
            f.sub(f.sigmoid(f.sub(f.add(f.exp(v), w), u)), f.sigmoid(f.sub(w, u)))
        ),
        {"Add", "Mul", "Softplus", "Exp", "LogAny"},
    ),
    "a share between cutpoints that are further apart": (
        lambda f, u, v, w, x, k, p, s: f.log(
            f.sub(f.sigmoid(f.add(f.exp(v), f.exp(w), u)), f.sigmoid(u))
        ),
        {"Add", "Mul", "Softplus", "Exp", "Log1mexp"},
    ),
    "a share between cutpoints of unknown order": (
        lambda f, u, v, w, x, k, p, s: f.log(f.sub(f.sigmoid(f.add(u, v)), f.sigmoid(u))),
        {"Log", "Add", "Mul", "Sigmoid"},
    ),
    "shares are not negative": (
        lambda f, u, v, w, x, k, p, s: f.switch(
            f.and_(
                f.ge(f.sub(f.sigmoid(f.add(f.exp(v), u)), f.sigmoid(u)), 0.0),
                f.le(f.sub(f.sigmoid(f.add(f.exp(v), u)), f.sigmoid(u)), 1.0),
            ),
            w,
            -np.inf,
        ),
        set(),
    ),
    "shares of unknown order are compared": (
        lambda f, u, v, w, x, k, p, s: f.switch(
            f.ge(f.sub(f.sigmoid(f.add(u, v)), f.sigmoid(u)), 0.0), w, v
        ),
        {"Switch", "GE", "Add", "Mul", "Sigmoid"},
    ),
    "waiting for two events": (
        lambda f, u, v, w, x, k, p, s: f.log(f.gammaincc(2.0, f.exp(u))),
        {"Log", "GammaIncC", "Exp"},
    ),
    "the second largest of several uniform numbers": (
        lambda f, u, v, w, x, k, p, s: f.log(f.betainc(f.exp(u), 2.0, f.sigmoid(v))),
        {"Log", "BetaInc", "Exp", "Sigmoid"},
    ),
    "what is positive is above zero": (
        lambda f, u, v, w, x, k, p, s: f.switch(
            f.or_(f.le(f.exp(u), 0.0), f.lt(f.softplus(v), 0.0)), 1.0, w
        ),
        set(),
    ),
    "what may be above one is compared": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.le(f.exp(u), 1.0), w, v),
        {"Switch", "LE", "Exp"},
    ),
    "conditions that decide nothing": (
        lambda f, u, v, w, x, k, p, s: f.switch(
            f.and_(f.gt(u, v), f.or_(f.gt(f.exp(u), 0.0), f.gt(v, 0.0))), w, v
        ),
        {"Switch", "GT"},
    ),
    "waiting for one event": (
        lambda f, u, v, w, x, k, p, s: f.log(f.gammaincc(1.0, f.exp(u))),
        {"Mul", "Exp"},
    ),
    "the largest of several uniform numbers": (
        lambda f, u, v, w, x, k, p, s: f.log(f.betainc(f.exp(u), 1.0, f.sigmoid(v))),
        {"Mul", "Exp", "Add", "LogSoftplus"},
    ),
    "an exponential times a softplus": (
        lambda f, u, v, w, x, k, p, s: f.mul(x, f.exp(u), f.softplus(f.sub(v, u)), w),
        {"Mul", "Exp", "Add", "LogSoftplus"},
    ),
    "a logarithm of a softplus": (
        lambda f, u, v, w, x, k, p, s: f.add(f.log(f.softplus(u)), f.exp(f.log(f.softplus(v)))),
        {"Add", "LogSoftplus", "Softplus"},
    ),
    "a complement": (lambda f, u, v, w, x, k, p, s: f.sub(1.0, f.sigmoid(u)), {"Sigmoid"}),
    "an exponential of a softplus": (
        lambda f, u, v, w, x, k, p, s: f.exp(f.neg(f.softplus(f.mul(x, u)))),
        {"Sigmoid"},
    ),
    "an exponential of a logarithm": (
        lambda f, u, v, w, x, k, p, s: f.exp(f.log(f.add(f.exp(u), f.softplus(v)))),
        {"Add", "Exp", "Softplus"},
    ),
    "softplus cancels": (
        lambda f, u, v, w, x, k, p, s: f.add(
            f.mul(p, f.softplus(f.mul(x, u))), f.neg(f.mul(p, f.softplus(f.neg(f.mul(x, u)))))
        ),
        set(),
    ),
    "softplus cancels the other way round": (
        lambda f, u, v, w, x, k, p, s: f.sub(f.softplus(f.neg(u)), f.softplus(u)),
        set(),
    ),
    "probabilities complete each other": (
        lambda f, u, v, w, x, k, p, s: f.add(
            f.mul(p, v, f.sigmoid(u)), x, f.mul(p, v, f.sigmoid(f.neg(u)))
        ),
        set(),
    ),
    "an interval's transform": (
        lambda f, u, v, w, x, k, p, s: f.add(
            f.mul(f.sigmoid(u), 0.7), f.mul(f.sub(1.0, f.sigmoid(u)), 0.2)
        ),
        {"Add", "Mul", "Sigmoid"},
    ),
    "an interval's transform, with the larger number below": (
        lambda f, u, v, w, x, k, p, s: f.add(
            f.mul(f.sigmoid(u), -1.0), f.mul(f.sub(1.0, f.sigmoid(u)), -3.0), x
        ),
        {"Add", "Mul", "Sigmoid"},
    ),
    "a ratio of gamma functions": (
        lambda f, u, v, w, x, k, p, s: f.sub(
            f.gammaln(f.add(f.exp(u), k)), f.gammaln(f.add(p, f.exp(u)))
        ),
        {"GammaRatio", "Exp", "Mul"},
    ),
    "a ratio of gamma functions, negative": (
        lambda f, u, v, w, x, k, p, s: f.add(
            f.mul(-2.0, f.gammaln(f.add(f.exp(u), k))), f.mul(2.0, f.gammaln(f.exp(u)))
        ),
        {"GammaRatio", "Exp", "Mul"},
    ),
    "what cancels with a logarithm": (
        lambda f, u, v, w, x, k, p, s: f.mul(
            p, f.exp(u), f.log1p(f.mul(f.exp(f.neg(u)), f.sqr(f.sub(x, v))))
        ),
        {"Mul", "Sqr", "Exp", "Log1pRatio"},
    ),
    "what cancels with a repeated logarithm": (
        lambda f, u, v, w, x, k, p, s: f.mul(
            f.log1p(f.mul(f.exp(f.neg(u)), f.sqr(v))),
            f.exp(u),
            f.log1p(f.mul(f.exp(f.neg(u)), f.sqr(v))),
        ),
        {"Mul", "Sqr", "Exp", "Log1p", "Log1pRatio"},
    ),
    "a part of a sum cancels with a logarithm": (
        lambda f, u, v, w, x, k, p, s: f.mul(
            f.add(f.exp(u), 1.0), f.log1p(f.mul(f.exp(f.neg(u)), f.sqr(v))), x
        ),
        {"Add", "Mul", "Sqr", "Exp", "Log1p", "Log1pRatio"},
    ),
    "a part of a repeated sum cancels with a logarithm": (
        lambda f, u, v, w, x, k, p, s: f.mul(
            f.add(f.exp(u), 1.0),
            f.add(f.exp(u), 1.0),
            f.log1p(f.mul(f.exp(f.neg(u)), f.sqr(v))),
        ),
        {"Add", "Mul", "Sqr", "Exp", "Log1p", "Log1pRatio"},
    ),
    "nothing cancels with a logarithm of unknown sign": (
        lambda f, u, v, w, x, k, p, s: f.mul(f.exp(u), f.log1p(f.mul(f.exp(f.neg(u)), v))),
        {"Mul", "Exp", "Log1p"},
    ),
    "a choice that is none": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.gt(x, 0.0), f.exp(u), f.exp(f.add(u, 0.0))),
        {"Exp"},
    ),
    "a known sign": (lambda f, u, v, w, x, k, p, s: f.mul(u, f.sign(f.exp(v))), set()),
    "conditions as numbers": (
        lambda f, u, v, w, x, k, p, s: f.add(
            f.mul(f.gt(u, v), x), f.convert_to_int64(f.le(u, x)), f.exp(f.mul(v, f.lt(u, v)))
        ),
        {"Switch", "GT", "LE", "LT", "Exp", "Mul", "Add"},
    ),
    "a product of conditions": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.mul(f.gt(u, v), f.gt(x, 0.0)), u, v),
        {"Switch", "AND", "GT"},
    ),
    "equality": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.eq(f.maximum(u, x), x), 1.0, v),
        {"Switch", "AND", "GE", "LE", "Maximum"},
    ),
    "inequality": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.neq(f.minimum(u, x), x), 1.0, v),
        {"Switch", "Invert", "AND", "GE", "LE", "Minimum"},
    ),
    "what is positive is not zero": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.eq(f.exp(u), 0.0), 1.0, v),
        set(),
    ),
    "what is finite is not infinite": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.neq(f.neg(f.softplus(u)), -np.inf), 1.0, v),
        set(),
    ),
    "the complement of a probability that is kept below one": (
        lambda f, u, v, w, x, k, p, s: f.log1p(f.neg(kept_below_one(f, u))),
        {"Mul", "Softplus"},
    ),
    "one and an error function, as in a skewed density": (
        lambda f, u, v, w, x, k, p, s: f.log(f.add(1.0, f.erf(f.mul(0.3, u)))),
        {"LogErfc"},
    ),
    "one less an error function": (
        lambda f, u, v, w, x, k, p, s: f.log(f.sub(1.0, f.erf(f.mul(0.3, u)))),
        {"LogErfc"},
    ),
    "a probit of an error function": (
        lambda f, u, v, w, x, k, p, s: f.log(f.add(0.5, f.mul(0.5, f.erf(f.mul(0.3, u))))),
        {"LogErfc", "Add"},
    ),
    "the complement of such a probit": (
        lambda f, u, v, w, x, k, p, s: f.log1p(f.neg(f.add(0.5, f.mul(0.5, f.erf(f.mul(0.3, u)))))),
        {"LogErfc", "Add"},
    ),
    "another number and an error function": (
        lambda f, u, v, w, x, k, p, s: f.log(f.add(1.5, f.mul(0.5, f.erf(f.mul(0.3, u))))),
        {"Log", "Add", "Mul", "Erf"},
    ),
    "a probability that is kept below one is no more than one": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.le(kept_below_one(f, u), 1.0), v, w),
        set(),
    ),
    "a probability that is kept below one is not negative": (
        lambda f, u, v, w, x, k, p, s: f.switch(f.ge(kept_below_one(f, u), 0.0), v, w),
        set(),
    ),
    "small types": (
        lambda f, u, v, w, x, k, p, s: f.add(
            f.mul(f.exp(u), s, s), f.sqr(f.mul(s, v)), f.log(f.mul(s, f.exp(u)))
        ),
        {"Add", "Mul", "Exp", "Sqr"},
    ),
}
# Where the plain expression has no value, these have none either.
UNDEFINED = {
    "a product of two of unknown sign": lambda f, u, v, w, *_: f.log(f.mul(u, v, f.exp(w))),
    "a product with negative data": lambda f, u, v, w, x, *_: f.log(f.mul(x, f.exp(w))),
    "a logarithm raised again": lambda f, u, v, w, *_: f.exp(f.log(u)),
    "a logarithm of a sum": lambda f, u, v, w, *_: f.log(f.add(f.exp(u), v)),
    "a root of a square root": lambda f, u, v, w, *_: f.sqr(f.sqrt(u)),
    "a broken power": lambda f, u, v, w, *_: f.pow(f.mul(2.0, u), 0.5),
}


def is_identity(name):
    simplified, plain = values(IDENTITIES[name][0])
    known = np.isfinite(plain)
    return known.mean() > 0.4 and np.allclose(simplified[known], plain[known], rtol=1e-9)


@every("name", IDENTITIES)
def test_an_identity_keeps_the_value(name):
    assert is_identity(name)


@every("name", IDENTITIES)
def test_an_identity_leaves_what_it_should(name):
    expression, left = IDENTITIES[name]
    assert operations(both(expression)[0]) == left


@every("name", UNDEFINED)
def test_what_is_undefined_stays_undefined(name):
    simplified, plain = values(UNDEFINED[name])
    assert 0.1 < np.isnan(plain).mean() < 0.9
    np.testing.assert_allclose(simplified, plain, rtol=1e-9)


def test_data_are_left_in_their_own_types():
    simplified, plain = both(lambda f, u, v, w, x, k, p, s: f.add(s, f.mul(s, s)))
    assert simplified.dtype == plain.dtype == np.int8
    expected = SMALL + SMALL * SMALL
    np.testing.assert_array_equal(value_of(simplified, POSITION, COLUMNS), expected)


def log_weights(f, u, v, x):
    impossible = f.switch(f.gt(x, 0.0), f.mul(x, u), -np.inf)
    in_data = f.add(1.5, f.switch(f.gt(x, -0.5), -np.inf, x))
    parts = [impossible, v, f.add(impossible, v), f.switch(f.gt(x, 0.5), -np.inf, u)]
    return [*parts, f.add(u, in_data)]


@every("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (0, 3, 2, 1), (1, 4), (4, 1, 0), (3, 4)])
def test_a_sum_of_logarithms_may_have_impossible_parts(order):
    cells = Cells()
    f = Builder(cells, simplify.apply)
    x = cells.data(0, ())
    parts = log_weights(f, cells.coordinate(0), cells.coordinate(1), x)
    parts += [f.cell(-np.inf), f.cell(-1.5)]
    chosen = [*(parts[k] for k in order), *parts[-2:]]
    total = simplify.log_of_sum(cells, chosen)
    found = value_of(total, POSITION, COLUMNS)
    plain = [np.broadcast_to(value_of(part, POSITION, COLUMNS), 400) for part in chosen]
    np.testing.assert_allclose(found, np.logaddexp.reduce(plain), rtol=1e-9)


def test_impossible_data_have_no_weight():
    cells = Cells()
    u, x = cells.coordinate(0), cells.data(0, ())
    columns = (np.where(REALS > 0.0, -np.inf, REALS),)
    for parts in ([x, u, x], [u, x, x], [x, x, u]):
        total = value_of(simplify.log_of_sum(cells, parts), POSITION, columns)
        plain = [np.broadcast_to(value_of(part, POSITION, columns), 400) for part in parts]
        np.testing.assert_allclose(total, np.logaddexp.reduce(plain), rtol=1e-9)


@every(
    "expression",
    [
        lambda f, u, *_: f.convert_to_int64(u),
        lambda f, u, *_: f.convert_to_bool(u),
        lambda f, u, *_: f.convert_to_float32(u),
        lambda f, u, *_: f.floor(u),
        lambda f, u, v, *_: f.mod(u, v),
        lambda f, u, v, *_: f.int_div(u, v),
        lambda f, u, v, *_: f.add(f.gt(u, v), f.gt(v, u)),
        lambda f, u, v, *_: f.maximum(f.gt(u, v), f.gt(v, u)),
        lambda f, u, v, *_: f.xor(f.gt(u, v), f.gt(v, u)),
        lambda f, u, v, *_: f.exp(f.gt(u, v)),
        lambda f, u, v, w, x, k, p, s: f.sub(s, f.gt(u, v)),
        lambda f, u, v, w, x, *_: f.isnan(f.mul(u, x)),
    ],
)
def test_what_leaves_the_reals_is_refused(expression):
    with pytest.raises(LoweringError):
        both(expression)


def test_a_parameter_is_a_number():
    cells = Cells()
    u = cells.coordinate(0)
    for op in (scalar.isnan, scalar.isinf):
        assert simplify.apply(cells, op, u) is cells.constant(False)


def test_equal_products_are_one_cell():
    cells = Cells()
    f = Builder(cells, simplify.apply)
    a, b = f.sqr(cells.coordinate(0)), f.softplus(cells.coordinate(1))
    x = cells.data(0, ())
    assert f.mul(a, x, b) is f.mul(f.mul(b, a), x) is f.mul(f.mul(x, b), a)
    assert f.mul(1.0, f.mul(a, b, b)) is f.mul(a, b, b)


# Each mutant is a plausible mistake; the identity that is named must notice it.


def reciprocal_without_sign(cells, x):
    return arithmetic.exp(cells, x.inputs[0])


def negated(plain):
    def difference(cells, left, right):
        known = plain(cells, left, right)
        return None if known is None else arithmetic.negative(cells, known)

    return difference


def completed_without_factors(plain):
    def completed(cells, parts):
        kept = plain(cells, parts)
        return [cells.one] if len(kept) < len(parts) else kept

    return completed


def square_once(cells, factors):
    return list(dict.fromkeys(factors))


def half_of_nothing(cells, x):
    return arithmetic.exp(cells, x.inputs[0])


def log_of_absolute_values(cells, x):
    return arithmetic.add(cells, *(simplify.logarithm(cells, part) for part in x.inputs))


def log1p_of_itself(cells, x):
    core, _ = patterns.scaled_core(cells, x)
    if isinstance(core.op, scalar_math.Sigmoid):
        inner = arithmetic.negative(cells, core.inputs[0])
        return arithmetic.negative(cells, arithmetic.softplus(cells, inner))
    return cells.node(scalar.log1p, (x,))


def difference_without_sign(cells, left, right):
    return arithmetic.add(cells, left, right)


def log_without_square(cells, x):
    core, _ = patterns.scaled_core(cells, x)
    if type(core.op).__name__ != "Erfcx":
        return simplify.logarithm(cells, x)
    return arithmetic.add(cells, cells.node(log_erfc, core.inputs), cells.constant(np.log(0.5)))


def no_event_of_size_one(cells, x):
    core, _ = patterns.scaled_core(cells, x)
    return cells.node(log_any, core.inputs)


RULES = simplify._RULES
MUTANTS = {
    "reciprocal without sign": (
        lambda m: m.setattr(arithmetic, "reciprocal", reciprocal_without_sign),
        "a quotient of exponentials",
    ),
    "softplus with the wrong sign": (
        lambda m: m.setattr(arithmetic, "_cancelled", negated(arithmetic._cancelled)),
        "softplus cancels",
    ),
    "factors of a probability dropped": (
        lambda m: m.setattr(
            arithmetic, "_completed", completed_without_factors(arithmetic._completed)
        ),
        "probabilities complete each other",
    ),
    "gamma ratio swapped": (
        lambda m: m.setattr(arithmetic, "_gamma_ratio", negated(arithmetic._gamma_ratio)),
        "a ratio of gamma functions",
    ),
    "factors that are equal removed together": (
        lambda m: m.setattr(
            arithmetic, "without", lambda factors, one: [x for x in factors if x is not one]
        ),
        "what cancels with a repeated logarithm",
    ),
    "repeated factors dropped": (
        lambda m: m.setattr(arithmetic, "_squares", square_once),
        "a repeated factor",
    ),
    "root not halved": (
        lambda m: m.setitem(RULES, scalar.Sqrt, half_of_nothing),
        "a root of an exponential",
    ),
    "log1p of the probability itself": (
        lambda m: m.setitem(RULES, scalar.Log1p, log1p_of_itself),
        "log1p of the rest of a probability",
    ),
    "difference as a sum": (
        lambda m: m.setitem(RULES, scalar.Sub, difference_without_sign),
        "a sum is affine",
    ),
    "numbers of like terms not added": (
        lambda m: m.setattr(arithmetic, "sum_of", lambda numbers: numbers[0]),
        "terms add up",
    ),
    "scaled tail taken for the tail": (
        lambda m: m.setitem(RULES, scalar.Log, log_without_square),
        "both tails of a normal distribution function",
    ),
    "other tail taken for the tail": (
        lambda m: m.setitem(RULES, scalar.Log, log_without_square),
        "both tails of what a normal distribution function leaves",
    ),
    "forms taken for one unseen": (
        lambda m: m.setattr(simplify, "subtract", lambda cells, *_: cells.zero),
        "forms that differ stay a choice",
    ),
    "a complement that is none": (
        lambda m: m.setitem(RULES, scalar_math.Log1mexp, lambda cells, x: x),
        "the complement of a logistic probability",
    ),
    "a normal complement that is none": (
        lambda m: m.setitem(RULES, scalar_math.Log1mexp, lambda cells, x: x),
        "the complement of a normal probability",
    ),
    "a size forgotten": (
        lambda m: m.setitem(RULES, scalar_math.Log1mexp, no_event_of_size_one),
        "the complement of no event",
    ),
    "a gap of any sign": (
        lambda m: m.setattr(probability, "is_positive", lambda cell: True),
        "shares of unknown order are compared",
    ),
    "anything is a probability": (
        lambda m: m.setattr(probability, "is_probability", lambda cell: True),
        "what may be above one is compared",
    ),
    "the upper share not mirrored": (
        lambda m: m.setattr(probability, "negative", lambda cells, x: x),
        "a share between two cutpoints",
    ),
    "one condition for all": (
        lambda m: m.setattr(logic, "_logic", lambda cells, op, operands: operands[-1]),
        "conditions that decide nothing",
    ),
    "one event for several": (
        lambda m: m.setitem(
            RULES,
            scalar_math.GammaIncC,
            lambda cells, shape, x: arithmetic.exp(cells, arithmetic.negative(cells, x)),
        ),
        "waiting for two events",
    ),
    "the largest for the second largest": (
        lambda m: m.setitem(
            RULES, scalar_math.BetaInc, lambda cells, a, b, x: simplify.power(cells, x, a)
        ),
        "the second largest of several uniform numbers",
    ),
    "a softplus forgotten": (
        lambda m: m.setattr(
            arithmetic, "_with_softplus_raised", lambda cells, factors: factors[:1]
        ),
        "an exponential times a softplus",
    ),
    "products in small types": (
        lambda m: m.setattr(Cells, "_in_reals", lambda self, cells: cells),
        "small types",
    ),
    "anything but a number is finite": (
        lambda m: m.setattr("pymc_minibatch_mh.model.row.logic.is_positive", lambda cell: True),
        "equality of a product with data",
    ),
}
IDENTITIES["equality at a point"] = (
    lambda f, u, v, w, x, k, p, s: f.switch(f.eq(f.add(f.exp(u), f.mul(x, v)), 1.0), w, v),
    {"Switch", "EQ", "Exp", "Add"},
)
IDENTITIES["equality of what shares a parameter"] = (
    lambda f, u, v, w, x, k, p, s: f.switch(
        f.eq(f.mul(f.exp(u), f.softplus(f.mul(x, u))), v), w, u
    ),
    {"Switch", "EQ", "Exp", "Add", "LogSoftplus"},
)
IDENTITIES["equality that shares all parameters"] = (
    lambda f, u, v, w, x, k, p, s: f.switch(f.eq(f.sqr(u), f.mul(f.exp(u), x)), w, u),
    {"Switch", "AND", "GE", "LE", "Sqr", "Exp", "Mul"},
)
IDENTITIES["a limit where two are equal"] = (
    lambda f, u, v, w, x, k, p, s: f.switch(
        f.eq(f.exp(f.mul(k, u)), 1.0), 0.0, f.mul(x, f.sub(f.exp(f.mul(k, u)), 1.0))
    ),
    {"Mul", "Add", "Exp"},
)
IDENTITIES["no limit where a factor may be infinite"] = (
    lambda f, u, v, w, x, k, p, s: f.switch(
        f.eq(f.exp(f.mul(k, u)), 1.0),
        0.0,
        f.mul(f.log(f.sqr(f.mul(k, u))), f.sub(f.exp(f.mul(k, u)), 1.0)),
    ),
    {"Switch", "AND", "GE", "LE", "Mul", "Add", "Exp", "Log", "Sqr"},
)
IDENTITIES["no limit where the difference is another"] = (
    lambda f, u, v, w, x, k, p, s: f.switch(
        f.eq(f.exp(f.mul(k, u)), 2.0), 0.0, f.mul(x, f.sub(f.exp(f.mul(k, u)), 1.0))
    ),
    {"Switch", "AND", "GE", "LE", "Mul", "Add", "Exp"},
)
IDENTITIES["equality of a product with data"] = (
    lambda f, u, v, w, x, k, p, s: f.switch(f.eq(f.mul(k, u), 0.0), 1.0, v),
    {"Switch", "AND", "GE", "LE"},
)


@every("name", MUTANTS)
def test_mutant_is_caught(name, monkeypatch):
    change, identity = MUTANTS[name]
    assert is_identity(identity)
    change(monkeypatch)
    assert not is_identity(identity)


def test_mutant_that_takes_products_apart_regardless_of_sign_is_caught(monkeypatch):
    monkeypatch.setattr(simplify, "_log_of_product", log_of_absolute_values)
    simplified, plain = values(UNDEFINED["a product of two of unknown sign"])
    both_negative = (POSITION[0] < 0.0) & (POSITION[1] < 0.0)
    assert np.isnan(simplified[both_negative]).all()
    assert np.isfinite(plain[both_negative]).all()


def test_numbers_and_affine_cells_stay_what_they_are():
    simplified, _ = both(lambda f, u, v, w, x, *_: f.mul(2.0, f.sub(u, u)))
    assert isinstance(simplified, Constant)
    assert simplified.value == 0.0
    simplified, _ = both(lambda f, u, v, w, x, *_: f.mul(x, f.sub(u, v)))
    assert isinstance(simplified, Affine)


@every(("low", "high"), [(0.2, 0.7), (-3.0, -1.0), (-1e9, 1e-3), (-1e-3, 1e9)])
def test_an_interval_keeps_its_digits_where_it_is_near_zero(low, high):
    cells = Cells()
    u = cells.coordinate(0)
    f = Builder(cells, simplify.apply)
    share = f.sigmoid(u)
    folded = f.add(f.mul(share, high), f.mul(f.sub(1.0, share), low))
    assert operations(folded) == {"Add", "Mul", "Sigmoid"}
    z = np.linspace(-60.0, 60.0, 241)
    parts = np.stack([expit(z) * high, expit(-z) * low])
    lost = 4.0 * np.finfo(float).eps * np.abs(parts).sum(axis=0)
    assert (np.abs(value_of(folded, z[None]) - parts.sum(axis=0)) <= lost).all()
