"""Linear predictors of observations: their coordinates and their data."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from pymc_minibatch_mh.expressions.arithmetic import add_exprs, multiply_exprs
from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Expr,
    ExprGraph,
    Gather,
    Monomial,
    common_values,
    coordinates_at,
    without_value,
)
from pymc_minibatch_mh.expressions.patterns import affines_in, predictor_coefficients, with_leaves

#: Tolerated rounding error of a combination of linear predictors, relative to them.
ROUNDED = 1e-14


@dataclass(frozen=True)
class LinearForm:
    """One argument u_a: a linear predictor, linear in the position with data as coefficients."""

    terms: tuple[Monomial, ...]

    @property
    def is_global(self) -> bool:
        """Whether the predictor is the same for all observations."""
        return all(not t.monomial and isinstance(t.place, int) for t in self.terms)

    @property
    def by_data(self) -> dict[tuple[Expr, ...], list[Monomial]]:
        """Terms grouped by the data that multiply them."""
        terms = defaultdict[tuple[Expr, ...], list[Monomial]](list)
        for term in self.terms:
            terms[term.monomial].append(term)
        return terms


def read_coordinates(forms: Iterable[LinearForm]) -> set[int]:
    """Coordinates that linear predictors depend on."""
    return {k for form in forms for term in form.terms for k in coordinates_at(term.place)}


def indexed_coordinates(forms: Iterable[LinearForm]) -> set[int]:
    """Indices of the coordinates that are indexed by data, such as group effects."""
    places = [term.place for form in forms for term in form.terms]
    return {k for place in places if isinstance(place, Gather) for k in coordinates_at(place)}


def single_coordinate(terms: Sequence[Monomial]) -> range:
    """Coordinates that a predictor can equal; empty if it has several terms or any factor."""
    if len(terms) > 1 or terms[0].monomial or terms[0].factor != 1.0:
        return range(0)
    return coordinates_at(terms[0].place)


class Predictors:
    """Basis of an expression's linear predictors, and all of them as combinations of the basis."""

    def __init__(self, exprs: ExprGraph, root: Expr) -> None:
        self._exprs = exprs
        self._scaled = {affine: _linear_form(affine) for affine in affines_in(root)}
        forms = [form for form, _, _ in self._scaled.values()]
        self.forms, self._weights = _independent_basis(forms)

    def rebuild_expr(self, expr: Expr) -> Expr:
        """Expression `expr` as a function of arguments and data."""
        leaves = {x: self._argument_of_affine(x) for x in affines_in(expr)}
        return with_leaves(self._exprs, expr, leaves)

    def _argument_of_affine(self, affine: Affine) -> Expr:
        form, factor, common = self._scaled[affine]
        exprs, scale = self._exprs, self._exprs.product(factor, common)
        parts = [
            multiply_exprs(exprs, scale, exprs.constant(weight), exprs.argument(k))
            for k, weight in enumerate(self._weights[form])
            if weight != 0.0
        ]
        return add_exprs(exprs, *parts, affine.offset)


def _linear_form(affine: Affine) -> tuple[LinearForm, float, tuple[Expr, ...]]:
    """Linear predictor of an affine expression, and the number and data that multiply it."""
    common = reduce(common_values, (t.monomial for t in affine.terms))
    factor = affine.terms[0].factor
    rests = [reduce(without_value, common, list(t.monomial)) for t in affine.terms]
    pairs = zip(affine.terms, rests, strict=True)
    terms = tuple(Monomial(t.factor / factor, tuple(rest), t.place) for t, rest in pairs)
    return LinearForm(terms), factor, common


def _independent_basis(
    forms: Sequence[LinearForm],
) -> tuple[tuple[LinearForm, ...], dict[LinearForm, np.ndarray]]:
    """Select independent predictors, short ones first, and express all predictors by them."""
    rows = dict(zip(forms, predictor_coefficients([form.terms for form in forms]), strict=True))
    chosen: list[LinearForm] = []
    weights: dict[LinearForm, dict[LinearForm, float]] = {}
    for form in sorted(rows, key=lambda form: len(form.terms)):
        known = np.array([rows[f] for f in chosen])
        found = _combination_weights(known, rows[form]) if chosen else None
        if found is None:
            chosen.append(form)
            weights[form] = {form: 1.0}
        else:
            weights[form] = dict(zip(chosen, found, strict=False))
    basis = tuple(form for form in rows if form in chosen)
    return basis, {f: np.array([weights[f].get(part, 0.0) for part in basis]) for f in rows}


def _combination_weights(basis: np.ndarray, row: np.ndarray) -> np.ndarray | None:
    """Weights of `row` as a linear combination of the basis; None if they are independent."""
    weights = np.linalg.lstsq(basis.T, row, rcond=None)[0]
    # Sums and differences have weights that are simple fractions: remove rounding errors.
    simple = np.round(weights * 720720.0) / 720720.0
    if np.array_equal(simple @ basis, row):
        return simple
    weights = np.where(np.abs(weights) > ROUNDED * np.abs(weights).max(), weights, 0.0)
    # Compare each entry separately: a tiny coefficient can belong to a large coordinate.
    error = np.abs(weights @ basis - row)
    return weights if (error <= ROUNDED * (np.abs(weights) @ np.abs(basis))).all() else None
