"""Random expressions of the parameters as log-densities of rows."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

GROUPS = 3
POSITIVE = (
    pt.exp,
    pt.softplus,
    lambda t: pt.sqr(t) + 0.5,
    lambda t: pt.sigmoid(t) + 0.1,
    lambda t: pt.abs(t) + 0.3,
)
#: Operations on one expression of any sign, and on a positive one.
OF_ONE = (
    lambda t: pt.exp(0.5 * t), pt.softplus, pt.sigmoid, pt.tanh, pt.sin, pt.arctan, pt.erf,
    lambda t: pt.log(pt.erfc(t)), lambda t: pt.clip(t, -1.0, 2.0), lambda t: pt.minimum(t, 0.3),
    lambda t: t**2, lambda t: t**3, lambda t: pt.expm1(0.3 * t), lambda t: pt.cos(t) * t,
    lambda t: pt.log1p(-pt.sigmoid(t)), lambda t: pt.log1p(pt.erf(t)), pt.abs, pt.arcsinh,
    lambda t: pt.sinh(0.2 * t), lambda t: pt.psi(pt.exp(t)), lambda t: pt.sign(t) * t,
    lambda t: pt.log(1.0 - pt.exp(-pt.exp(t))), lambda t: pt.sqrt(pt.sqr(t)),
)  # fmt: skip
OF_POSITIVE = (
    pt.log, pt.sqrt, pt.log1p, pt.gammaln, lambda t: pt.log1mexp(-t), lambda t: t**-2,
    lambda t: t**1.5, lambda t: t**-0.5,
)  # fmt: skip
OF_TWO = (
    pt.add, pt.add, pt.sub, pt.mul, pt.mul, pt.logaddexp, pt.maximum,
    lambda t, u: pt.switch(pt.gt(t, 0.4), t, u), lambda t, u: pt.switch(pt.eq(t, 0.0), 0.0, t * u),
)  # fmt: skip
#: Densities of an observation by an expression.
DENSITIES = (
    lambda y, t: -0.5 * (y - t) ** 2,
    lambda y, t: t,
    lambda y, t: -pt.softplus(-t * y),
    lambda y, t: t * y - pt.exp(pt.minimum(t, 5.0)),
    lambda y, t: -3.0 * pt.log1p((y - t) ** 2 / 5.0),
)


class Growth:
    """Grows random expressions from parameters and data.

    Parameters
    ----------
    rng
        What choices are made with.
    rows
        Number of rows.
    """

    def __init__(self, rng, rows):
        self.rng, self.rows = rng, rows
        x = rng.normal(size=rows)
        if rng.random() < 0.2:
            x[0] = rng.choice([1e3, 0.0, -30.0])
        grown = np.exp(np.minimum(x, 3.0))
        X = rng.normal(size=(rows, GROUPS)).astype(rng.choice(["float32", "float64"]))
        counts = rng.integers(-3, 4, rows).astype(rng.choice(["int8", "int64", "float32"]))
        self.y = rng.normal(size=rows)
        a, b, s = pm.Normal("a"), pm.Normal("b"), pm.HalfNormal("s")
        p, v = pm.Beta("p", 2.0, 2.0), pm.Normal("v", shape=GROUPS)
        of_parameters = [
            a, b, a + b * x, v[self.numbers()], pt.dot(X, v), s, p, b * grown, a * counts,
            pt.log(s),
        ]  # fmt: skip
        kept = sorted(rng.choice(len(of_parameters), 4, replace=False))
        of_data = [pt.as_tensor(c).astype("float64") for c in (self.y, counts, x)]
        self.leaves = [*(of_parameters[k] for k in kept), of_data[rng.integers(3)]]

    def numbers(self):
        """Return a group of every row, counted from either end."""
        low = self.rng.integers(-GROUPS, 1)
        return self.rng.integers(low, low + GROUPS, self.rows).astype("int8")

    def one_of(self, choices):
        """Return one of several things."""
        return choices[self.rng.integers(len(choices))]

    def positive(self, depth):
        """Return a positive expression."""
        return self.one_of(POSITIVE)(self.of(depth))

    def of(self, depth):
        """Return an expression of some depth."""
        if depth == 0 or self.rng.random() < 0.1:
            return self.one_of(self.leaves)
        kind = self.rng.integers(12)
        if kind < 4:
            return self.one_of(OF_TWO)(self.of(depth - 1), self.of(depth - 1))
        if kind < 7:
            return self.one_of(OF_ONE)(self.of(depth - 1))
        if kind < 9:
            return self.one_of(OF_POSITIVE)(self.positive(depth - 1))
        if kind == 9:
            return self.of(depth - 1) / self.positive(depth - 1)
        if kind == 10:
            return self.positive(depth - 1) ** self.of(depth - 1)
        return self.across(depth - 1)

    def across(self, depth):
        """Return a function of three expressions side by side."""
        whole = [pt.broadcast_to(self.of(depth), (self.rows,)) for _ in range(GROUPS)]
        side_by_side = pt.stack(whole, axis=1)
        return self.one_of(
            [
                pt.logsumexp(side_by_side, axis=1),
                pt.special.softmax(side_by_side, axis=1)[:, self.rng.integers(GROUPS)],
                pt.cumsum(side_by_side, axis=1)[:, -1 - self.rng.integers(2)],
                side_by_side[pt.arange(self.rows), self.numbers()],
                pt.max(side_by_side, axis=1),
                pt.prod(side_by_side, axis=1),
            ]
        )


def random_expression(seed):
    """Return a model of a random log-density."""
    rng = np.random.default_rng([seed, 2])
    with pm.Model() as model:
        growth = Growth(rng, int(rng.integers(4, 7)))
        grown = growth.of(int(rng.integers(2, 5))).astype("float64") + pt.zeros(growth.rows)
        pm.CustomDist("y", grown, logp=growth.one_of(DENSITIES), observed=growth.y)
    return model
