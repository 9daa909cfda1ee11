"""Rules, with their functions and derivatives in arithmetic of any precision."""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
from pymc.distributions.dist_math import i0e_scalar, i1e_scalar
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.functions.enclosures import enclose_derivatives
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.functions.log1p_ratio import log1p_ratio
from pymc_minibatch_mh.functions.log_any import log_any
from pymc_minibatch_mh.functions.log_erfc import log_erfc
from pymc_minibatch_mh.functions.log_i0e import log_i0e
from pymc_minibatch_mh.functions.log_softplus import log_softplus

#: The highest derivative.
ORDER = 4
REALS, POSITIVE = (-np.inf, np.inf), (0.0, np.inf)


@dataclass(frozen=True)
class Case:
    """A function with its rule, exact values and derivatives, and where those turn."""

    name: str
    op: ScalarOp
    enclose: Callable[[Interval, int], list[Interval]]
    exact: Callable[[mp.mpf], list[mp.mpf]]
    domain: tuple[float, float] = REALS
    turns: tuple[float, ...] = ()
    reach: float = 1e290
    rounds: bool = True
    data: tuple[float, ...] = ()

    def __str__(self):
        return self.name


def of_op(op, exact, *args, **kwargs):
    def enclose(u, order):
        return enclose_derivatives(op, u, order)

    return Case(str(op), op, enclose, exact, *args, **kwargs)


def slopes_of_log(x):
    return [1 / x, -1 / x**2, 2 / x**3, -6 / x**4]


def power(x, c):
    return [mp.ff(c, n) * x ** (c - n) if mp.ff(c, n) else mp.mpf(0) for n in range(ORDER + 1)]


def slopes_of_sigmoid(x):
    p = 1 / (4 * mp.cosh(x / 2) ** 2)
    t = mp.tanh(x / 2)
    return [1 / (1 + mp.exp(-x)), p, -p * t, p * (1 - 6 * p), p * t * (12 * p - 1)]


def exact_tanh(x):
    t, s = mp.tanh(x), mp.sech(x) ** 2
    return [t, s, -2 * t * s, s * (4 * t**2 - 2 * s), 8 * t * s * (3 * s - 1)]


def slopes_of_erf(x):
    p = 2 / mp.sqrt(mp.pi) * mp.exp(-(x**2))
    return [p, -2 * x * p, (4 * x**2 - 2) * p, (12 * x - 8 * x**3) * p]


def exact_erfcx(x):
    if x > 1e8:
        return [mp.ff(-1, k) / x ** (k + 1) / mp.sqrt(mp.pi) for k in range(ORDER + 1)]
    value = mp.exp(x**2) * mp.erfc(x)
    first = 2 * x * value - 2 / mp.sqrt(mp.pi)
    second = 2 * value + 2 * x * first
    third = 4 * first + 2 * x * second
    return [value, first, second, third, 6 * second + 2 * x * third]


def exact_log1p_ratio(x):
    if x < mp.mpf("1e-3"):
        return [
            mp.fsum((-x) ** n * (-1) ** k * mp.rf(n + 1, k) / (n + k + 1) for n in range(40))
            for k in range(ORDER + 1)
        ]
    values = [mp.log1p(x) / x]
    for k in range(1, ORDER + 1):
        slope = (-1) ** (k - 1) * mp.factorial(k - 1) / (1 + x) ** k
        values.append((slope - k * values[-1]) / x)
    return values


def logarithmic_slopes(s, r, p, d):
    """Return derivatives of s, where s' = s r, r' = -p - s r and p' = p d."""
    dr = -p - s * r
    bend = r**2 + dr
    tilt = 2 * r * dr - p * d - s * r**2 - s * dr
    return [s, s * r, s * bend, s * (r * bend + tilt)]


def exact_log_any(x):
    # Beyond, all derivatives underflow, and the double exponential overflows.
    w = mp.exp(min(x, 800))
    value = mp.log1p(-mp.exp(-w)) if w > 1 else mp.log(-mp.expm1(-w))
    if w < 1e-3:
        terms = [mp.bernoulli(n) * w**n / mp.factorial(n) for n in range(40)]
        sums = (mp.fsum(n**k * term for n, term in enumerate(terms)) for k in range(ORDER))
        return [value, *sums]
    slope = w / mp.expm1(w)
    rest = 1 - w - slope
    return [value, *logarithmic_slopes(slope, rest, w, 1)]


def exact_log_softplus(x):
    w = mp.exp(x)
    value = mp.log(mp.log1p(w))
    if w < 1e-3:
        divisor = [1, *(mp.mpf(-1) ** (n - 1) / (n * (n + 1)) for n in range(1, 25))]
        series = [mp.mpf(1)]
        for n in range(1, 25):
            series.append(-mp.fsum(divisor[k] * series[n - k] for k in range(1, n + 1)))
        sums = (mp.fsum(n**k * c * w**n for n, c in enumerate(series)) for k in range(ORDER))
        return [value, *sums]
    share, other = w / (1 + w), 1 / (1 + w)
    slope = share / mp.log1p(w)
    rest = other - slope
    return [value, *logarithmic_slopes(slope, rest, share * other, other - share)]


def exact_log_erfc(x):
    if x > 1e8:
        value = -(x**2) - mp.log(x * mp.sqrt(mp.pi))
        return [value, -2 * x - 1 / x, -2 + 1 / x**2, -2 / x**3, 6 / x**4]
    m = 2 / mp.sqrt(mp.pi) * mp.exp(-(x**2)) / mp.erfc(x)
    q = m - 2 * x
    value = mp.log(mp.erfc(x)) if x > 1 else mp.log1p(-mp.erf(x))
    third, fourth = q**2 + m * q - 2, q**3 + 4 * m * q**2 + (m**2 - 6) * q - 2 * m
    return [value, -m, -m * q, -m * third, -m * fourth]


def exact_log_i0e(x):
    """Derivatives of the logarithm, by Riccati's equation of the ratio of Bessel functions."""
    if x > 1e8:
        value, u = -mp.log(2 * mp.pi * x) / 2 + 1 / (8 * x), 1 / x
        slope, bend = -u / 2 - u**2 / 8, u**2 / 2 + u**3 / 4
        return [value, slope, bend, -(u**3) - 3 * u**4 / 4, 3 * u**4 + 3 * u**5]
    if x < 1e-8:
        return [
            -x + x**2 / 4,
            -1 + x / 2,
            mp.mpf(1) / 2 - 3 * x**2 / 16,
            -3 * x / 8,
            -mp.mpf(3) / 8,
        ]
    with mp.workdps(80):
        ratio = mp.besseli(1, x) / mp.besseli(0, x)
        first = 1 - ratio / x - ratio**2
        second = -first / x + ratio / x**2 - 2 * ratio * first
        third = (2 * first / x - 2 * ratio / x**2 - second) / x - 2 * (first**2 + ratio * second)
        return [mp.log(mp.besseli(0, x)) - x, ratio - 1, first, second, third]


def exact_log1mexp(x):
    s, c = mp.sinh(x / 2), mp.cosh(x / 2)
    value = mp.log(-mp.expm1(x)) if x > -1 else mp.log1p(-mp.exp(x))
    fourth = -(2 * c**2 + 1) / (8 * s**4)
    return [value, -1 / mp.expm1(-x), -1 / (4 * s**2), c / (4 * s**3), fourth]


def exact_arctan(x):
    w = 1 / (1 + x**2)
    return [mp.atan(x), w, -2 * x * w**2, (6 * x**2 - 2) * w**3, 24 * x * (1 - x**2) * w**4]


def exact_arcsinh(x):
    s = 1 / mp.sqrt(1 + x**2)
    return [mp.asinh(x), s, -x * s**3, (2 * x**2 - 1) * s**5, (9 * x - 6 * x**3) * s**7]


def waves(x):
    return [mp.sin(x), mp.cos(x), -mp.sin(x), -mp.cos(x)] * 2


def polygammas(first):
    orders = range(first, first + ORDER + 1)

    def exact(x):
        return [mp.loggamma(x) if n < 0 else mp.psi(n, x) for n in orders]

    return exact


def line(value, slope):
    return lambda x: [value(x), mp.mpf(slope(x)), *[mp.mpf(0)] * (ORDER - 1)]


def exact_tan(x):
    t = mp.tan(x)
    w = 1 + t**2
    return [t, w, 2 * t * w, (2 + 6 * t**2) * w]


def exact_arcsin(x, sign=1):
    s = 1 / mp.sqrt(1 - x**2)
    value = mp.asin(x) if sign > 0 else mp.acos(x)
    return [value, sign * s, sign * x * s**3, sign * (1 + 2 * x**2) * s**5]


def exact_arccosh(x):
    s = 1 / mp.sqrt(x**2 - 1)
    return [mp.acosh(x), s, -x * s**3, (1 + 2 * x**2) * s**5]


def exact_arctanh(x):
    w = 1 / (1 - x**2)
    return [mp.atanh(x), w, 2 * x * w**2, (2 + 6 * x**2) * w**3]


def exact_gamma(x):
    value, first, second, third = mp.gamma(x), *(mp.psi(n, x) for n in range(3))
    slopes = [first, first**2 + second, first**3 + 3 * first * second + third]
    return [value, *(value * slope for slope in slopes)]


def slopes_of_bessel(x):
    """Return I_0 and its first four derivatives."""
    i0, i1, i2, i3, i4 = (mp.besseli(n, x) for n in range(5))
    return [i0, i1, (i0 + i2) / 2, (3 * i1 + i3) / 4, (3 * i0 + 4 * i2 + i4) / 8]


def exact_scaled_bessel(order):
    def exact(x):
        if abs(x) > 1e20:
            size, sign = abs(x), mp.sign(x)
            tail = [mp.ff(-0.5, n) * size ** (-n - mp.mpf(0.5)) for n in range(ORDER + 1)]
            return [
                sign ** (n + order) * value / mp.sqrt(2 * mp.pi) for n, value in enumerate(tail)
            ]
        slopes, decay = slopes_of_bessel(abs(x))[order:], mp.exp(-abs(x))
        values = [
            decay * mp.fsum((-1) ** (n - k) * mp.binomial(n, k) * slopes[k] for k in range(n + 1))
            for n in range(ORDER + 1 - order)
        ]
        return [mp.sign(x) ** (n + order) * value for n, value in enumerate(values)]

    return exact


LOGISTIC_TURNS = (
    0.0,
    -1.3169578969248166,
    1.3169578969248166,
    -2.2924316695611777,
    2.29243166956117,
    -0.842632948129377,
    0.842632948129377,
    -3.14431840615493,
    3.14431840615493,
)
ERF_TURNS = (
    *(0.0, -(0.5**0.5), 0.5**0.5, -(1.5**0.5), 1.5**0.5),
    *(-0.52464762327529, 0.52464762327529, -1.65068012388578, 1.65068012388578),
)
ARCTAN_TURNS = (
    *(0.0, -(3**-0.5), 3**-0.5, -1.0, 1.0),
    *(-0.324919696232906, 0.324919696232906, -1.37638192047117, 1.37638192047117),
)
ARCSINH_TURNS = (
    *(0.0, -(0.5**0.5), 0.5**0.5, -(1.5**0.5), 1.5**0.5),
    *(-0.361515706764014, 0.361515706764014, -1.69390271083168, 1.69390271083168),
)

CASES = [
    of_op(scalar.exp, lambda x: [mp.exp(x)] * 5),
    of_op(scalar.expm1, lambda x: [mp.expm1(x)] + [mp.exp(x)] * 4),
    of_op(scalar.log, lambda x: [mp.log(x), *slopes_of_log(x)], POSITIVE),
    of_op(scalar.log1p, lambda x: [mp.log1p(x), *slopes_of_log(1 + x)], (-1.0, np.inf)),
    of_op(scalar_math.log1mexp, exact_log1mexp, (-np.inf, 0.0)),
    of_op(scalar.sqr, lambda x: power(x, 2), turns=(0.0,)),
    of_op(scalar.sqrt, lambda x: power(x, mp.mpf(1) / 2), POSITIVE),
    of_op(scalar.reciprocal, lambda x: power(x, -1), turns=(0.0,)),
    of_op(scalar.abs, line(abs, mp.sign), turns=(0.0,), rounds=False),
    of_op(scalar.sign, line(mp.sign, lambda x: 0), turns=(0.0,), rounds=False),
    of_op(scalar_math.sigmoid, slopes_of_sigmoid, turns=LOGISTIC_TURNS),
    of_op(
        scalar_math.softplus,
        lambda x: [mp.log1p(mp.exp(x)), *slopes_of_sigmoid(x)[:ORDER]],
        turns=LOGISTIC_TURNS,
    ),
    of_op(scalar.tanh, exact_tanh, turns=tuple(0.5 * turn for turn in LOGISTIC_TURNS)),
    of_op(scalar_math.gammaln, polygammas(-1), POSITIVE, (1.4616321449683623,)),
    of_op(scalar_math.psi, polygammas(0), POSITIVE),
    of_op(scalar_math.tri_gamma, polygammas(1), POSITIVE),
    of_op(scalar_math.erf, lambda x: [mp.erf(x), *slopes_of_erf(x)], turns=ERF_TURNS),
    of_op(
        scalar_math.erfc,
        lambda x: [mp.erfc(min(x, 1e9)), *(-slope for slope in slopes_of_erf(x))],
        turns=ERF_TURNS,
    ),
    of_op(scalar_math.erfcx, exact_erfcx, reach=1e4),
    of_op(scalar.sin, lambda x: waves(x)[: ORDER + 1], reach=1e6),
    of_op(scalar.cos, lambda x: waves(x)[1 : ORDER + 2], reach=1e6),
    of_op(scalar.arctan, exact_arctan, turns=ARCTAN_TURNS),
    of_op(scalar.sinh, lambda x: ([mp.sinh(x), mp.cosh(x)] * 3)[: ORDER + 1], turns=(0.0,)),
    of_op(scalar.cosh, lambda x: ([mp.cosh(x), mp.sinh(x)] * 3)[: ORDER + 1], turns=(0.0,)),
    of_op(scalar.arcsinh, exact_arcsinh, turns=ARCSINH_TURNS),
    of_op(log1p_ratio, exact_log1p_ratio, POSITIVE, reach=1e100),
    of_op(
        log_any,
        exact_log_any,
        turns=(
            *(-0.198941566958296, 0.620829654565572, 1.426690653586295),
            *(-0.940063227174712, 0.911642990626985, 1.854054327693844),
        ),
        reach=500.0,
    ),
    of_op(
        log_softplus,
        exact_log_softplus,
        turns=(
            *(-1.02064576922115, 0.494984951660796, 1.94000715133671),
            *(-2.051349784294047, 0.290948068540293, 3.068549820893062),
        ),
        reach=1e6,
    ),
    Case(
        "log_i0e",
        log_i0e,
        lambda u, order: enclose_derivatives(log_i0e, u, order),
        exact_log_i0e,
        POSITIVE,
        turns=(1.0288854607651853, 1.7776622065419108),
    ),
    Case(
        "log_erfc",
        log_erfc,
        lambda u, order: enclose_derivatives(log_erfc, u, order),
        exact_log_erfc,
        turns=(-0.70878215917147, -1.464622454428443, 0.021095555664165),
        reach=1e4,
    ),
    *(
        Case(
            f"power {c}",
            scalar.pow,
            lambda u, order, c=c: enclose_derivatives(scalar.pow, u, order, c),
            lambda x, c=c: power(x, c),
            REALS if c == int(c) else POSITIVE,
            (0.0,) if c == int(c) else (),
            rounds=c not in (0, 1),
            data=(float(c),),
        )
        for c in (-3, -2, -0.5, 0, 1, 1.75, 2, 3, 4, 17)
    ),
]
#: Functions without an enclosure, which steps take that need no bounds.
OTHERS = [
    Case("tan", scalar.tan, None, exact_tan, reach=1e6),
    Case("arcsin", scalar.arcsin, None, exact_arcsin, (-1.0, 1.0)),
    Case("arccos", scalar.arccos, None, lambda x: exact_arcsin(x, -1), (-1.0, 1.0)),
    Case("arccosh", scalar.arccosh, None, exact_arccosh, (1.0, np.inf)),
    Case("arctanh", scalar.arctanh, None, exact_arctanh, (-1.0, 1.0)),
    Case("gamma", scalar_math.gamma, None, exact_gamma, POSITIVE),
    Case("i0", scalar_math.i0, None, slopes_of_bessel, reach=700.0),
    Case("i1", scalar_math.i1, None, lambda x: slopes_of_bessel(x)[1:], reach=700.0),
    Case("i0e", i0e_scalar, None, exact_scaled_bessel(0), turns=(0.0,)),
    Case("i1e", i1e_scalar, None, exact_scaled_bessel(1), turns=(0.0,)),
]
