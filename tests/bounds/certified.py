"""Families of models around their modes, and a search for moves that exceed their bounds.

Nothing is compiled by PyTensor: rows are evaluated by NumPy from their cells, and independent
normal priors stand in for a model's own. Bounds hold around any centre and in any metric.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytensor
from scipy import optimize

from bounds.exponentials import EXPONENTIALS
from bounds.state_sums import STATE_SUMS
from bounds.sums_of_parts import SUMS_OF_PARTS
from bounds.vectors import VECTORS
from expressions.values import plain
from helpers.models import FAMILIES
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass, trial_rows
from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.expressions.graph import Argument
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.model.factorization import Factorization, factorize
from pymc_minibatch_mh.native.bound_tables import no_tables, sizes_between
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.mode import Mode, reference_at
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction, row_functions

#: Rounding errors of a difference of log-likelihoods, in units of the largest term in them.
ROUNDING = 1e-13
#: Mean and standard deviation of priors that say more than the rows do.
PRIORS = {
    "tau_log__": (np.log(0.8), 0.03),
    # Of one sign, and known well, for only the product of both is in the covariance.
    "w[0, 0]": (0.9, 0.03),
    "w[1, 0]": (0.7, 0.03),
    "known_cholesky-cov-packed__[0]": (0.0, 0.03),
    "known_cholesky-cov-packed__[1]": (0.6, 0.03),
    "known_cholesky-cov-packed__[2]": (np.log(0.8), 0.03),
}
#: How far out positions are sought where a table has no radius.
FAR = 300.0


@cache
def steps_to(root):
    """Return the cells that one is computed from and itself, in order, with what computes each."""
    steps = {}

    def add(expr):
        if expr in steps:
            return
        if expr.is_data or isinstance(expr, Argument):
            steps[expr] = None
            return
        for x in expr.inputs:
            add(x)
        steps[expr] = plain(expr.op)

    add(root)
    return list(steps.items())


def evaluate(function, data, arguments):
    """Return the log-likelihood of rows, and the size of the largest number on the way to it.

    Arguments have shape (N,), or (k, N) for k positions at once.
    """
    known, largest = {}, np.zeros(())
    with np.errstate(all="ignore"):
        for expr, compute in steps_to(function.root):
            if compute is not None:
                known[expr] = compute(*[known[x] for x in expr.inputs])
                size = np.abs(known[expr])
                # Branches that are not taken may be infinite.
                largest = np.fmax(largest, np.where(np.isfinite(size), size, 0.0))
            else:
                known[expr] = data.value(expr) if expr.is_data else arguments[expr.number]
    return known[function.root], largest


def derivatives(function, data, arguments, order):
    """Return a row's partial derivatives at points: sorted multi-index -> values."""
    with np.errstate(all="ignore"):
        jet = Jets(data, [Interval.point(u) for u in arguments], order).of(function.root)
        middles = {index: 0.5 * (value.lo + value.hi) for index, value in jet.items()}
        # At a kink any slope in between will do, and no curvature.
        return {index: np.where(np.isnan(x), 0.0, x) for index, x in middles.items()}


class Rows:
    """Some rows of a term, which may be evaluated anywhere."""

    def __init__(self, function: RowFunction, numbers: np.ndarray, size: int) -> None:
        self.function = function
        self.data = RowData(function, numbers)
        count = len(numbers)
        self.matrices = [
            np.broadcast_to(self.data.coefficients(form, size), (count, size))
            for form in function.arguments
        ]

    def arguments(self, positions):
        """Return the arguments at one position, or at one position for every row."""
        return [(matrix * positions).sum(axis=1) for matrix in self.matrices]

    def summed(self, position):
        """Return the sum over rows with its gradient and Hessian."""
        jet = derivatives(self.function, self.data, self.arguments(position), 2)
        count, m = len(self.matrices[0]), len(self.matrices)
        at = [[np.broadcast_to(jet.get((a, b), 0.0), count) for b in range(m)] for a in range(m)]
        gradient = sum(
            np.broadcast_to(jet.get((a,), 0.0), count) @ matrix
            for a, matrix in enumerate(self.matrices)
        )
        hessian = sum(
            (self.matrices[a] * at[min(a, b)][max(a, b)][:, None]).T @ self.matrices[b]
            for a in range(m)
            for b in range(m)
        )
        return np.broadcast_to(jet[()], count).sum(), gradient, hessian


@dataclass(frozen=True, eq=False)
class Fit:
    """A model with its mode."""

    factorization: Factorization
    functions: list[RowFunction]
    mode: Mode
    prior_precision: np.ndarray

    def reference(self, order, beta=1.0):
        """Return control variates; a tempered posterior is wider."""
        wide = self.prior_precision - beta * self.mode.likelihood.hessian
        return reference_at(Mode(self.mode.position, wide, self.mode.likelihood), order, beta)

    def bounds(self, reference):
        """Return the pass that bounds all rows."""
        return BoundsPass(
            self.functions, reference, (self.factorization.lower, self.factorization.upper)
        )

    def least_total(self, reference):
        """Return Σc_i over a region without extent, estimated on a few rows."""
        bounds, total = self.bounds(reference), 0.0
        for function in self.functions:
            data = trial_rows(function)
            place, whole = bounds.geometry(data), (1,) * len(function.arguments)
            c = np.fmin(*bounds.kind.bounds(data, place, 0.0, whole))
            total += np.broadcast_to(c, data.rows.shape).mean() * function.n_rows
        return total


@cache
def fit(name, rows):
    """Return a family around its mode."""
    model = (FAMILIES | VECTORS | EXPONENTIALS | SUMS_OF_PARTS | STATE_SUMS)[name](rows=rows)
    # Initial points of a correlation matrix would be compiled.
    with pytensor.config.change_flags(cxx="", mode="FAST_COMPILE"):
        parts = factorize(model, model.value_vars)
        start = parts.ravel(model.initial_point())
    functions = row_functions(parts)
    terms = [Rows(f, np.arange(f.n_rows), parts.size) for f in functions]
    mean, sd = np.transpose([PRIORS.get(name, (0.0, 1.0)) for name in parts.coordinate_names])
    precision = np.diag(sd**-2.0)

    def likelihood(position):
        return [sum(part) for part in zip(*(t.summed(position) for t in terms), strict=True)]

    @cache
    def loss(key):
        position = np.frombuffer(key)
        value, gradient, hessian = likelihood(position)
        pull = precision @ (position - mean)
        total = 0.5 * pull @ (position - mean) - value
        return total if np.isfinite(total) else 1e300, pull - gradient, precision - hessian

    place = optimize.minimize(
        lambda x: loss(x.tobytes())[0],
        start,
        jac=lambda x: loss(x.tobytes())[1],
        hess=lambda x: loss(x.tobytes())[2],
        method="trust-exact",
        options={"gtol": 1e-6 * rows},
    ).x
    value, gradient, hessian = likelihood(place)
    mode = Mode(place, precision - hessian, Derivatives(float(value), gradient, hessian))
    return Fit(parts, functions, mode, precision)


class Remainders:
    """Remainders of some rows around a centre."""

    def __init__(self, rows: Rows, reference) -> None:
        self.rows = rows
        self.order = reference.order
        self.centre = rows.arguments(reference.centre)
        self.slopes = derivatives(rows.function, rows.data, self.centre, 2)

    def change(self, position, new):
        """Return r(new) - r(position) of every row, and its rounding error."""
        ends = [self.rows.arguments(x) for x in (new, position)]
        both = [np.stack(one) for one in zip(*ends, strict=True)]
        values, sizes = evaluate(self.rows.function, self.rows.data, both)
        shape = 2, len(self.rows.data.rows)
        (value, before), sizes = np.broadcast_to(values, shape), np.broadcast_to(sizes, shape)
        total, slack = value - before, 0.0
        gaps = [[u - c for u, c in zip(end, self.centre, strict=True)] for end in ends]
        for index, slope in self.slopes.items():
            if 0 < len(index) <= self.order:
                halves = 1.0 if len(index) == 1 or len(set(index)) == 2 else 0.5
                terms = [halves * slope * np.prod([gap[k] for k in index], axis=0) for gap in gaps]
                total = total - (terms[0] - terms[1])
                slack = slack + np.abs(terms[0]) + np.abs(terms[1])
        return total, ROUNDING * (1.0 + sizes[0] + sizes[1] + slack)


def sizes_of_moves(reference, positions, news, kind):
    """Return M of many moves."""
    whole = no_tables()._replace(headers=np.array([[np.inf, kind, 1.0]]))
    return sizes_between(whole, reference, np.stack([positions, news], axis=1))


class Hunt:
    """A search for moves inside a trust region at which rows come close to their bounds.

    Parameters
    ----------
    rows : Rows
        One row for every move that is tried at a time.
    reference
        Centre and metric.
    table : tuple
        Radius, kind and c_i of the rows.
    """

    def __init__(self, rows, reference, table, rng):
        self.reference = reference
        self.radius, self.kind, self.c = table
        self.remainders = Remainders(rows, reference)
        self.rng = rng
        whitened = [matrix @ reference.factor for matrix in rows.matrices]
        self.whitened = np.stack(whitened, axis=1)
        self.shape = whitened[0].shape

    def ratios(self, a, b):
        """Return β |r(θ') - r(θ)| / (c M) in whitened coordinates of both positions."""
        s = self.reference
        here, there = (np.ascontiguousarray(s.centre + x @ s.factor.T) for x in (a, b))
        change, slack = self.remainders.change(here, there)
        m = sizes_of_moves(s, here, there, self.kind)
        excess = s.inverse_temperature * np.maximum(np.abs(change) - slack, 0.0)
        with np.errstate(all="ignore"):
            return np.where(excess > 0.0, excess / (self.c * m), 0.0)

    def directions(self):
        """Return a direction for every row: its own arguments' mostly, any, or a coordinate's."""
        count, size = self.shape
        mixed = (self.rng.standard_normal((count, self.whitened.shape[1], 1)) * self.whitened).sum(
            axis=1
        )
        free = self.rng.standard_normal(self.shape)
        single = self.reference.whitener.T[self.rng.integers(0, size, count)]
        kind = self.rng.random((count, 1))
        chosen = np.where(kind < 0.6, mixed, np.where(kind < 0.8, free, single))
        signs = self.rng.choice([-1.0, 1.0], (count, 1))
        return signs * chosen / np.maximum(np.linalg.norm(chosen, axis=1, keepdims=True), 1e-300)

    def lengths(self):
        """Return distances from the centre: on the boundary, or anywhere inside."""
        count = (self.shape[0], 1)
        most = self.radius
        if most == np.inf:
            most = FAR ** self.rng.random(count)
        inside = self.rng.random(count)
        return most * np.where(self.rng.random(count) < 0.4, 1.0, inside) * (1.0 - 1e-9)

    def start(self):
        """Return pairs of positions: apart, opposite, on one ray, or near each other."""
        a, b = (self.directions() * self.lengths() for _ in range(2))
        scale = self.rng.random((self.shape[0], 1))
        near = self.within(a + 10.0 ** (-3.0 * scale) * self.directions())
        kind = self.rng.integers(0, 4, (self.shape[0], 1))
        return a, np.choose(kind, [b, -a, scale * a, near])

    def within(self, a):
        """Move positions into the trust region."""
        length = np.linalg.norm(a, axis=1, keepdims=True)
        most = (FAR if self.radius == np.inf else self.radius) * (1.0 - 1e-9)
        return a * np.minimum(1.0, most / np.maximum(length, 1e-300))

    def worst(self, tries, climbs):
        """Return the largest ratio of every row that is found."""
        best, a, b = np.full(self.shape[0], -1.0), *np.zeros((2, *self.shape))
        for k in range(tries + climbs):
            if k < tries:
                x, y = self.start()
            else:
                step = 0.5 * 0.01 ** ((k - tries) / climbs)
                length = np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-3)
                x, y = (
                    self.within(
                        z + step * length * self.rng.random((len(z), 1)) * self.directions()
                    )
                    for z in (a, b)
                )
            ratios = self.ratios(x, y)
            better = ~(ratios <= best)
            best = np.where(better, ratios, best)
            a, b = (np.where(better[:, None], x, a), np.where(better[:, None], y, b))
        return best


class HuntFromCentre(Hunt):
    """The same among moves that begin in the centre, where lower bounds of densities come from."""

    def ratios(self, a, b):
        """Return by how much of c m the log-density of each row lies below its expansion."""
        s = self.reference
        end = np.ascontiguousarray(s.centre + b @ s.factor.T)
        start = np.broadcast_to(s.centre, end.shape).copy()
        change, slack = self.remainders.change(start, end)
        m = sizes_of_moves(s, start, end, self.kind)
        missing = s.inverse_temperature * np.maximum(-change - slack, 0.0)
        with np.errstate(all="ignore"):
            return np.where(missing > 0.0, missing / (self.c * m), 0.0)


def hunt(fitted, reference, tables, seed=1, *, moves=100_000, rows=200, climbs=150, search=Hunt):
    """Return the largest ratio of each table that a search finds among rows and moves."""
    rng = np.random.default_rng(seed)
    tries = -(-moves // (rows * len(tables.headers) * len(fitted.functions)))
    worst, first = np.zeros(len(tables.headers)), 0
    for function in fitted.functions:
        last = first + function.n_rows
        for k, (radius, kind, _) in enumerate(tables.headers):
            c = tables.c[k, first:last].astype(np.float64)
            numbers = np.union1d(rng.integers(0, len(c), rows), np.argsort(c)[-rows // 8 :])
            some = Rows(function, numbers, fitted.factorization.size)
            found = search(some, reference, (radius, kind, c[numbers]), rng)
            worst[k] = max(worst[k], found.worst(tries, climbs).max())
        first = last
    return worst
