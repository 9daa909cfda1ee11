"""Products and sums of intervals, rounded outward: see :class:`bounds.interval.Interval`.

NumPy takes two dozen passes over its arrays for a product, and this one.
"""

import numpy as np

from pymc_minibatch_mh._jit import compiled

# Thousands of times the rounding errors of one operation and of NumPy's and SciPy's functions,
# and still far too little to matter in a bound.
RELATIVE = 1e-12
# More than what underflow can lose.
TINY = 1e-300

_LARGEST = np.finfo(np.float64).max


# Written without branches, which lets LLVM do four intervals at a time.


@compiled()
def _less(x, y):
    return x if x < y else y


@compiled()
def _more(x, y):
    return x if x > y else y


@compiled()
def _below(end, slack):
    """Return a lower end, moved outward; overflow of a number is the largest number."""
    least = _less(end, _LARGEST)
    low = least - (abs(least) * RELATIVE + slack)
    return -np.inf if end != end else low


@compiled()
def _above(end, slack):
    most = _more(end, -_LARGEST)
    high = most + (abs(most) * RELATIVE + slack)
    return np.inf if end != end else high


@compiled()
def _times(x, y):
    """Return a product; an infinite end only stands for ever larger numbers, times 0."""
    product = x * y
    return 0.0 if product != product else product


@compiled()
def _product(a, b, c, d):
    """Return the product of the intervals (a, b) and (c, d)."""
    one, two, three, four = _times(a, c), _times(a, d), _times(b, c), _times(b, d)
    lo = _less(_less(one, two), _less(three, four))
    hi = _more(_more(one, two), _more(three, four))
    low, high = _below(lo, TINY), _above(hi, TINY)
    # Slack must not carry a product past zero, where it cannot lie. A zero that was computed may
    # be a product that underflowed, so that the factors decide.
    zero = ((a == 0.0) & (b == 0.0)) | ((c == 0.0) & (d == 0.0))
    never_negative = zero | ((a >= 0.0) & (c >= 0.0)) | ((b <= 0.0) & (d <= 0.0))
    never_positive = zero | ((a >= 0.0) & (d <= 0.0)) | ((b <= 0.0) & (c >= 0.0))
    low = 0.0 if never_negative & (lo >= 0.0) & (low < 0.0) else low
    high = 0.0 if never_positive & (hi <= 0.0) & (high > 0.0) else high
    return low, high


@compiled()
def multiply(a, b, c, d, lo, hi):
    """Write products of intervals (a, b) and (c, d) to `lo` and `hi`, shape (n,).

    Their ends have shape (n,) or (1,): one interval stands for all.
    """
    if a.size < lo.size:
        first, last = a[0], b[0]
        for i in range(lo.size):
            lo[i], hi[i] = _product(first, last, c[i], d[i])
    elif c.size < lo.size:
        first, last = c[0], d[0]
        for i in range(lo.size):
            lo[i], hi[i] = _product(a[i], b[i], first, last)
    else:
        for i in range(lo.size):
            lo[i], hi[i] = _product(a[i], b[i], c[i], d[i])


@compiled()
def add(a, b, c, d, lo, hi):
    """Write sums of intervals, as :func:`multiply` does products.

    Without slack: additions do not underflow, and zero must remain zero.
    """
    first, second = a.size == lo.size, c.size == lo.size
    for i in range(lo.size):
        j, k = i if first else 0, i if second else 0
        lo[i] = _below(a[j] + c[k], 0.0)
        hi[i] = _above(b[j] + d[k], 0.0)


@compiled()
def integrals_of_inverse_powers(x, nodes, weights, order, out):
    """Write derivatives of log(1 + x)/x up to `order`, shape (order + 1, n).

    It is the integral of 1/(1 + x t) over t in (0, 1), taken by a quadrature's nodes and weights.
    """
    out[:] = 0.0
    for i in range(x.size):
        for j in range(nodes.size):
            ratio = 1.0 / (1.0 + x[i] * nodes[j])
            term = weights[j] * ratio
            for k in range(order + 1):
                out[k, i] += term
                term *= -(k + 1.0) * nodes[j] * ratio
