"""Null space of the likelihood: directions along which no observation changes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import numpy as np
from pytensor.graph.traversal import ancestors
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.subtensor import Subtensor, get_constant_idx
from scipy.linalg import qr, solve_triangular
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import Monomial, coordinates_at
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.structure.row_function import RowFunction, predictor_forms

#: Maximum number of unknowns of a linear system; solutions of larger systems are left out.
MAX_UNKNOWNS = 200
#: Tolerated rounding error of a sum, relative to the sum of its absolute terms.
ROUNDED = 64 * 2.220446049250313e-16

#: Equation for a direction v: class of coordinates with equal entries of v -> coefficient.
Equation = dict[int, float]


def likelihood_null_space(
    factorization: Factorization, functions: Sequence[RowFunction] | BoundsError
) -> np.ndarray:
    """Basis of the directions of this step along which no observation changes, shape (n, d).

    An observation depends on linear predictors with data as coefficients. A direction in the kernel
    of all predictors, whatever the data, changes no observation: a coordinate in no predictor, or a
    shift of a location against all effects that it is added to. If observations are compiled
    graphs, directions are single coordinates outside all constant slices that the graphs read.

    Directions of single coordinates come first, in order. Unprovable directions are omitted.
    `functions` are the observations as functions of a few linear predictors, or the reason why not.
    """
    if isinstance(functions, BoundsError):
        unused = np.arange(factorization.size) >= factorization.first
        for piece in _position_slices(factorization):
            unused[piece] = False
        return np.eye(factorization.size)[unused]
    parts = [part for form in predictor_forms(functions) for part in form.by_data.values()]
    labels = _coordinate_classes(parts, factorization.size)
    equations = [_kernel_equation(part, labels) for part in parts]
    # Variables of other steps stay fixed.
    equations += [{int(own): 1.0} for own in labels[: factorization.first]]
    solutions = list(_solution_basis(equations, set(labels.tolist())))
    found = np.zeros((len(solutions), factorization.size))
    for line, solution in zip(found, solutions, strict=True):
        for own, weight in solution.items():
            line[labels == own] = weight
    order = sorted(range(len(found)), key=lambda j: (np.count_nonzero(found[j]) > 1, j))
    return found[order]


def _coordinate_classes(parts: Sequence[Sequence[Monomial]], size: int) -> np.ndarray:
    """Class of every coordinate; coordinates that one index selects from share a class."""
    pairs = [k for part in parts for term in part for k in pairwise(coordinates_at(term.place))]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    links = coo_array((np.ones(len(pairs)), tuple(ends)), shape=(size, size))
    _, labels = connected_components(links, directed=False)
    return np.asarray(labels)


def _kernel_equation(part: Sequence[Monomial], labels: np.ndarray) -> Equation:
    """Equation Σ coefficient × v = 0 of terms with the same data, without zero coefficients."""
    total, sizes = defaultdict[int, float](float), defaultdict[int, float](float)
    for term in part:
        own = int(labels[coordinates_at(term.place)[0]])
        total[own] += term.factor
        sizes[own] += abs(term.factor)
    return {own: x for own, x in total.items() if abs(x) > ROUNDED * sizes[own]}


def _solution_basis(equations: Sequence[Equation], unknowns: set[int]) -> Iterator[Equation]:
    """Basis of the solutions of all equations; first come unknowns that are in no equation."""
    zero: set[int] = set()
    while True:
        left = [{k: x for k, x in e.items() if k not in zero} for e in equations]
        pinned = {k for e in left if len(e) == 1 for k in e}
        if not pinned:
            break
        zero |= pinned
    bound = sorted({k for e in left for k in e})
    for k in sorted(unknowns - zero - set(bound)):
        yield {k: 1.0}
    if not 0 < len(bound) <= MAX_UNKNOWNS:
        return
    matrix = np.array([[e.get(k, 0.0) for k in bound] for e in left if e])
    for solution in _null_space(matrix):
        # Errors are relative to each equation's own terms, so small coefficients count as well.
        if (np.abs(matrix @ solution) <= ROUNDED * (np.abs(matrix) @ np.abs(solution))).all():
            yield dict(zip(bound, solution, strict=True))


def _null_space(matrix: np.ndarray) -> Iterator[np.ndarray]:
    """Basis of the null space of a matrix; each solution sets one free unknown to 1."""
    scaled = matrix / np.abs(matrix).max(axis=1, keepdims=True)
    triangle, pivots = qr(scaled, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int((diagonal > ROUNDED * len(pivots) * diagonal[0]).sum())
    solved = solve_triangular(triangle[:rank, :rank], -triangle[:rank, rank:])
    for j, unknown in enumerate(pivots[rank:]):
        solution = np.zeros(len(pivots))
        solution[pivots[:rank]] = solved[:, j]
        solution[unknown] = 1.0
        # Sums and differences have weights that are simple fractions: remove rounding errors.
        simple = np.round(solution * 720720.0) / 720720.0
        yield np.where(np.abs(simple - solution) <= ROUNDED, simple, solution)


def _position_slices(factorization: Factorization) -> Iterator[slice]:
    """Slices of the position that the graphs of observations read."""
    for variable in ancestors([term.logp for term in factorization.terms]):
        node = variable.owner
        if node is None or factorization.position not in node.inputs:
            continue
        piece = slice(None)
        if isinstance(node.op, Subtensor) and node.inputs.count(factorization.position) == 1:
            with suppress(NotScalarConstantError):
                (piece,) = get_constant_idx(node.op.idx_list, node.inputs)
        yield piece
