"""Parameters that multiply effects of groups in observations, as discriminations of items do.

An observation of ``disc[item] * (theta[person] - beta[item])`` depends on the effect θ through

    exp(v) (θ - b) = a θ - d,    a = exp(v), d = a b,

which is linear in a and d wherever θ is a number, as at a node. In v and b it is not, and its
derivatives of high orders have far larger bounds. Of few observations, the posterior is closer to a
normal distribution in v and d.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.expressions.arithmetic import add_exprs, multiply_exprs
from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Argument,
    Expr,
    Gather,
    Monomial,
    coordinates_at,
)
from pymc_minibatch_mh.expressions.patterns import is_a, operands_last, with_leaves
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.structure.predictors import LinearForm, Predictors, single_coordinate
from pymc_minibatch_mh.structure.row_function import RowFunction
from pymc_minibatch_mh.structure.small_groups import SmallGroups


@dataclass(frozen=True, eq=False)
class Loadings:
    """Row functions of coordinates a = exp(v) in the places of v, and d = a b in those of b.

    `logs` are the places of v, and `shifts` pairs of places of b and of v, shape (n, 2). v itself
    is the coordinate if `in_logs`.
    """

    functions: tuple[RowFunction, ...]
    logs: np.ndarray
    shifts: np.ndarray
    in_logs: bool


class _Product(NamedTuple):
    """Product of exp(v), v at `log`, and a predictor with the effect and with others, `shifts`."""

    expr: Expr
    log: Gather
    effect: tuple[Monomial, ...]
    shifts: tuple[Monomial, ...]


def loadings_of(
    factorization: Factorization, functions: Sequence[RowFunction], groups: SmallGroups
) -> Loadings | None:
    """Loadings of groups whose effects have fixed nodes; None if there are none, or mapped ones."""
    if any(not scale.is_constant for scale in groups.scales):
        return None
    if any(effect.location for effect in groups.effects):
        return None
    loadings = find_loadings(functions, groups.all_coordinates.ravel().tolist(), groups.in_logs)
    moved = set[int]().union(*(bijection.coordinates for bijection in factorization.maps))
    if loadings is None or not moved.isdisjoint({*loadings.logs, *loadings.shifts.flat}):
        return None
    return loadings


def find_loadings(
    functions: Sequence[RowFunction], effects: Sequence[int], in_logs: bool
) -> Loadings | None:
    """Loadings of the effects at some coordinates; None if observations would not be linear."""
    products = [list(_products_in(function, set(effects))) for function in functions]
    everything = [product for of_function in products for product in of_function]
    if not everything:
        return None
    logs = {k for product in everything for k in coordinates_at(product.log)}
    pairs = {pair for x in everything for term in x.shifts for pair in _pairs_of(term, x.log)}
    shifts = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
    changed = logs.union(shifts[:, 0].tolist())
    if np.unique(shifts[:, 0]).size < len(shifts) or not logs.isdisjoint(shifts[:, 0].tolist()):
        return None
    pairs_of_terms = zip(functions, products, strict=True)
    rewritten = [_rewritten(f, some, changed, in_logs) for f, some in pairs_of_terms]
    done = tuple(function for function in rewritten if function is not None)
    if len(done) < len(products):
        return None
    return Loadings(done, np.array(sorted(logs)), shifts, in_logs)


def _pairs_of(term: Monomial, log: Gather) -> list[tuple[int, int]]:
    return list(zip(coordinates_at(term.place), coordinates_at(log), strict=True))


def _products_in(function: RowFunction, effects: set[int]) -> list[_Product]:
    """Products of exp(v) and a linear predictor with an effect, in which the same data choose."""
    products = []
    for expr in operands_last([function.root], lambda x: x.is_data):
        exponents = [x.inputs[0] for x in expr.inputs if is_a(x, scalar.Exp)]
        plain = [x for x in expr.inputs if isinstance(x, Argument)]
        if not is_a(expr, scalar.Mul) or len(exponents) != 1 or len(plain) != 1:
            continue
        (exponent,), (argument,) = exponents, plain
        if not isinstance(exponent, Argument):
            continue
        (log, *others), form = function.arguments[exponent.number].terms, argument.number
        terms = function.arguments[form].terms
        effect = tuple(t for t in terms if not effects.isdisjoint(coordinates_at(t.place)))
        shifts = tuple(t for t in terms if t not in effect)
        if others or not single_coordinate([log]) or not isinstance(log.place, Gather):
            continue
        if effect and all(_is_chosen_alike(term, log.place) for term in shifts):
            products.append(_Product(expr, log.place, effect, shifts))
    return products


def _is_chosen_alike(term: Monomial, log: Gather) -> bool:
    same = isinstance(term.place, Gather) and term.place.index is log.index
    return same and len(coordinates_at(term.place)) == log.size


def _rewritten(
    function: RowFunction, products: Sequence[_Product], changed: set[int], in_logs: bool
) -> RowFunction | None:
    """Row function in the new coordinates; None if it depends on one in another way."""
    exprs = function.exprs

    def affine(terms: Sequence[Monomial]) -> Affine:
        return exprs.affine(terms, exprs.zero)

    leaves: dict[Expr, Expr] = {}
    for product in products:
        rest = [x for x in product.expr.inputs if x.is_data]
        if len(rest) != len(product.expr.inputs) - 2:
            return None
        load: Expr = exprs.coordinate(product.log)
        load = exprs.node(scalar.exp, [load]) if in_logs else load
        parts = [[load, affine(product.effect)]]
        parts += [[affine(product.shifts)]] if product.shifts else []
        leaves[product.expr] = add_exprs(
            exprs, *(multiply_exprs(exprs, *rest, *part) for part in parts)
        )
    left = operands_last([function.root], lambda x: x.is_data or x in leaves)
    arguments = [x for x in left if isinstance(x, Argument)]
    for argument in arguments:
        form: LinearForm = function.arguments[argument.number]
        # d alone is linear as well, but b is not.
        if any(not changed.isdisjoint(coordinates_at(term.place)) for term in form.terms):
            return None
        leaves[argument] = affine(form.terms)
    root = with_leaves(exprs, function.root, leaves)
    predictors = Predictors(exprs, root)
    return replace(function, root=predictors.rebuild_expr(root), arguments=predictors.forms)
