"""Derivatives of a few rows by NumPy, and the expansion around their mode.

Compiling long row functions takes a minute, and a model without bounds does not need them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_minibatch_mh.compiled.differences import partial_derivatives
from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.compiled.hessian_differences import count_operations
from pymc_minibatch_mh.compiled.prior import Prior
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.errors import BoundsError, ModeError
from pymc_minibatch_mh.expressions.graph import Argument, Expr
from pymc_minibatch_mh.expressions.kinks import kinks_of
from pymc_minibatch_mh.expressions.patterns import constant_value, evaluate_exprs, operands_first
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.marginal import precision_at
from pymc_minibatch_mh.reference.mode import COARSE_TOLERANCE, reference_at
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.predictors import indexed_coordinates
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Minimum and maximum number of rows, evenly spaced over all terms; maximum number of products in
#: their Hessian; seed of the search for their mode.
LEAST_ROWS, MOST_ROWS, MAX_PRODUCTS, SEED = 128, 1_024, 1e8, 11


class TermOfFew:
    """Rows of a term, with expressions of value, gradient and Hessian in its linear predictors."""

    def __init__(
        self, function: RowFunction, slopes: Sequence[Expr], rows: np.ndarray, size: int
    ) -> None:
        data, self._slopes, self._n = RowData(function, rows), slopes, rows.size
        order = list(operands_first(slopes))
        self._data: dict[Expr, Any] = {x: data.value(x) for x in order if x.is_data}
        self._arguments = [x for x in order if isinstance(x, Argument)]
        self._order = [x for x in order if not (x.is_data or isinstance(x, Argument))]
        lines = [data.coefficients(form, size) for form in function.arguments]
        #: Gradients of linear predictors, shape (n, m, d).
        self._lines = np.stack([np.broadcast_to(x, (rows.size, size)) for x in lines], axis=1)

    def derivatives(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Derivatives of the summed log-likelihood of these rows."""
        predictors, m = self._lines @ theta, self._lines.shape[1]
        values = self._data | {x: predictors[:, x.number] for x in self._arguments}
        with np.errstate(all="ignore"):
            evaluate_exprs(self._order, values)
            slopes = np.array([np.broadcast_to(values[x], self._n) for x in self._slopes])
            flat = self._lines.reshape(-1, theta.size)
            value, gradient = float(slopes[0].sum()), slopes[1 : 1 + m].T.ravel() @ flat
            if not hessian:
                return Derivatives(value, gradient, np.empty((0, 0)))
            bends, pairs = np.empty((self._n, m, m)), np.triu_indices(m)
            bends[:, pairs[0], pairs[1]] = bends[:, pairs[1], pairs[0]] = slopes[1 + m :].T
            products = flat.T @ (bends @ self._lines).reshape(-1, theta.size)
        return Derivatives(value, gradient, products)


class FewRows(FullData):
    """Evaluations of a few rows of a model, and of its prior, without compiled rows."""

    cheap_hessian = True

    def __init__(self, terms: Sequence[TermOfFew], n_rows: int, prior: Prior, source: ArrayRows):
        self._terms, self.n_rows, self._prior, self._source = terms, n_rows, prior, source

    @classmethod
    def spread(cls, target: Target, functions: Sequence[RowFunction]) -> "FewRows":
        """Evenly spaced rows of all terms."""
        size, total, terms, count = target.factorization.size, target.source.n_rows, [], 0
        m = max(len(function.arguments) for function in functions)
        few = np.clip(MAX_PRODUCTS / (m * size**2), LEAST_ROWS, MOST_ROWS)
        for k, function in enumerate(functions):
            share = max(1, int(few * function.n_rows / total))
            rows = np.unique(np.linspace(0, function.n_rows - 1, share).astype(np.int64))
            terms.append(TermOfFew(function, slopes_of_term(target, k, function), rows, size))
            count += rows.size
        return cls(terms, count, target.compiled.prior, target.source)

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Derivatives of the summed log-likelihood of these rows."""
        parts = [term.derivatives(theta, hessian=hessian) for term in self._terms]
        return Derivatives(
            sum(each.value for each in parts),
            np.sum([each.gradient for each in parts], axis=0),
            np.sum([each.hessian for each in parts], axis=0),
        )

    def undefined_at(self, theta: np.ndarray) -> str:
        """Nothing: a search over few rows ends without a message to users."""
        return ""


def slopes_of_term(target: Target, k: int, function: RowFunction) -> Sequence[Expr]:
    """Value, gradient and Hessian of a term in its linear predictors."""
    rows = target.compiled.rows
    return (
        rows.slope_exprs(k)
        if isinstance(rows, FormRows)
        else partial_derivatives(function, (0, 1, 2))
    )


def n_slopes(target: Target) -> int:
    """Number of operations in value, gradient and Hessian of rows of all terms."""
    functions = target.row_functions
    if isinstance(functions, BoundsError):
        return 0
    return sum(count_operations(slopes_of_term(target, k, f)) for k, f in enumerate(functions))


def has_kinks_between_lines(target: Target) -> bool:
    """Whether rows have kinks, and no curvature in a predictor with effects of groups."""
    for k, function in enumerate(target.known_functions):
        if not any(map(function.exprs.kinks.get, kinks_of(function.exprs, function.root))):
            continue
        m = len(function.arguments)
        pairs = zip(*(x.tolist() for x in np.triu_indices(m)), strict=True)
        bends = dict(zip(pairs, slopes_of_term(target, k, function)[1 + m :], strict=True))
        effects = (a for a, form in enumerate(function.arguments) if indexed_coordinates([form]))
        if any(constant_value(bends[a, a]) == 0.0 for a in effects):
            return True
    return False


def reference_of_few(target: Target, start: np.ndarray) -> Reference | None:
    """Expansion around the mode of a few rows, in the metric of all; None if it is not found."""
    functions = target.row_functions
    if isinstance(functions, BoundsError):
        return None
    few = FewRows.spread(target, functions)
    try:
        rng, density = np.random.default_rng(SEED), target.density_of(few)
        mode = target.search_mode(start, start, rng, COARSE_TOLERANCE, density)
    except ModeError:
        return None
    beta = target.inverse_temperature
    likelihood = few.likelihood(mode.position, hessian=True)
    weight = beta * target.source.n_rows / few.n_rows
    precision = precision_at(few, mode, mode.position, likelihood, weight)
    if precision is None or not np.isfinite(precision).all():
        return None
    if np.linalg.eigvalsh(precision)[0] <= 0.0:
        return None
    return reference_at(replace(mode, precision=precision), target.taylor_order, beta)
