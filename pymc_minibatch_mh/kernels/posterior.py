"""The posterior as updates know it, and how they read rows of it."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.bound_tables import BoundTables
from pymc_minibatch_mh.kernels.draw import (
    arrange,
    arrange_block,
    change_of_all,
    has_failed,
    number_through,
)
from pymc_minibatch_mh.kernels.handle import function_at
from pymc_minibatch_mh.kernels.roles import EVALUATE, FULL_PASS, INVALID, LOGP
from pymc_minibatch_mh.kernels.vectors import inner_by, scratch


class Reference(NamedTuple):
    """Control variates around a centre, frozen while a chain runs."""

    #: Where the expansion is made, θ̂.
    centre: np.ndarray
    #: L with L Lᵀ = A⁻¹, A the posterior precision at the centre, and L⁻¹, shape (d, d): |L⁻¹ δ| is
    #: a distance in posterior standard deviations.
    factor: np.ndarray
    whitener: np.ndarray
    #: Sums of the gradients and Hessians of all rows at the centre; zero at order 0, and below 2.
    gradient: np.ndarray
    hessian: np.ndarray
    order: int
    #: β, which multiplies the log-likelihood only.
    inverse_temperature: float
    #: First coordinate that is moved; those before it belong to other steps.
    first: int = 0
    #: β over the one that bounds and the predicted noise of rows were found at, which both are
    #: proportional to at order 0; 1 except where a schedule of temperatures is on its way.
    relative: float = 1.0


@compiled(inlined=True)
def expansion_change(reference, position, new):
    """Return β [T(new) - T(position)] without the cancellation of two large values."""
    middle, step = scratch(position.size, np.float64), scratch(position.size, np.float64)
    total = 0.0
    for j in range(position.size):
        middle[j] = 0.5 * ((position[j] - reference.centre[j]) + (new[j] - reference.centre[j]))
        step[j] = new[j] - position[j]
        total += reference.gradient[j] * step[j]
    total += inner_by(reference.hessian, step, middle)
    return reference.inverse_temperature * total


@compiled()
def whitened_norm(whitener, position, origin):
    """Return the distance from `origin` in posterior standard deviations."""
    total = 0.0
    for i in range(position.size):
        expr = 0.0
        for j in range(i + 1):
            expr += whitener[i, j] * (position[j] - origin[j])
        total += expr * expr
    return np.sqrt(total)


#: Rows that a full pass inside an update reads at a time.
BLOCK = 2048


class RowSpace(NamedTuple):
    """Where the rows are: first row of each term, and the addresses of compiled rows.

    The context holds addresses of the other variables and of the arrays, and for rows that are
    functions of linear forms also their functions and where each form's coefficients lie.
    """

    term_starts: np.ndarray
    context: np.ndarray


class Posterior(NamedTuple):
    """A tempered posterior: a cheap part, the remainders of rows, and their bounds."""

    #: Addresses of the prior part (``LOGP``) and of the remainders' differences (``EVALUATE``).
    prior: int
    evaluate: int
    space: RowSpace
    reference: Reference
    #: Bounds of the remainders; none for tests without.
    tables: BoundTables
    #: Batch size above which a look evaluates the full data.
    most_drawn: float = np.inf


@compiled(inlined=True)
def log_prior(posterior, position):
    """Return the log-density of everything that is not subsampled."""
    return function_at(posterior.prior, LOGP)(position, posterior.space.context)


@compiled(inlined=True)
def number_of_rows(posterior):
    """Return how many rows there are, in memory or not."""
    supply = posterior.tables.supply
    return supply.n_rows if supply.room > 0 else posterior.space.term_starts[-1]


@compiled(inlined=True)
def lacks_rows(posterior):
    """Return whether stored rows could not be had, without which no update can be decided."""
    return has_failed(posterior.tables.supply)


@compiled(inlined=True)
def cheap_change(posterior, move):
    """Return by how much a move changes the expansion of the likelihood, tempered."""
    return expansion_change(posterior.reference, move.position, move.new)


@compiled(inlined=True)
def read_drawn(posterior, move, drawn, rows, differences, scales):
    """Write the differences of remainders of drawn rows, term by term, their scales and numbers.

    The numbers, `rows`, are those of all terms in the order of the differences.
    """
    space = posterior.space
    ends = scratch(space.term_starts.size - 1, np.int64)
    arrange(drawn, 0, drawn.size, space.term_starts, rows, ends)
    evaluate = function_at(posterior.evaluate, EVALUATE)
    centre, context = posterior.reference.centre, space.context
    evaluate(move.position, move.new, centre, rows, ends, context, differences, scales)
    number_through(rows, ends, space.term_starts)


@compiled(inlined=True)
def read_block(posterior, move, first, rows, differences, scales):
    """Write as :func:`read_drawn` for the next BLOCK of all rows; return how many they are."""
    space = posterior.space
    ends = scratch(space.term_starts.size - 1, np.int64)
    last = min(first + BLOCK, space.term_starts[-1])
    arrange_block(first, last, space.term_starts, rows, ends)
    evaluate = function_at(posterior.evaluate, EVALUATE)
    centre, some = posterior.reference.centre, rows[: last - first]
    evaluate(move.position, move.new, centre, some, ends, space.context, differences, scales)
    number_through(some, ends, space.term_starts)
    return some.size


@compiled(inlined=True)
def _add_block(rows, differences, c, change, squares):
    """Add the differences of rows to a sum, and their squares over c to another."""
    for i in range(rows.size):
        change += differences[i]
        if c.size and c[rows[i]] > 0.0:
            squares += differences[i] ** 2 / c[rows[i]]
    return change, squares


@compiled()
def read_chosen(posterior, move, chosen, c):
    """Sum the differences of chosen rows, and their squares over c: see :func:`read_all`."""
    change, squares = 0.0, 0.0
    rows, differences, scales = np.empty(BLOCK, np.int64), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, chosen.size, BLOCK):
        drawn = chosen[first : first + BLOCK]
        some = rows[: drawn.size]
        read_drawn(posterior, move, drawn, some, differences, scales)
        change, squares = _add_block(some, differences, c, change, squares)
    return change, squares


@compiled()
def read_all(posterior, move, c):
    """Return Σ d_i of all rows, and Σ d_i²/c_i over those that can change, in bounded memory.

    The bounds `c`, float32, are empty where none are asked about. The second sum is NaN where rows
    are stored.
    """
    if posterior.tables.supply.room > 0:
        return change_of_all(posterior.tables.supply), np.nan
    change, squares = 0.0, 0.0
    rows, differences, scales = np.empty(BLOCK, np.int64), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, posterior.space.term_starts[-1], BLOCK):
        count = read_block(posterior, move, first, rows, differences, scales)
        change, squares = _add_block(rows[:count], differences, c, change, squares)
    return change, squares


@compiled()
def change_of_all_rows(posterior, move, counts):
    """Read all rows, which is counted; return their change, tempered."""
    change, _ = read_all(posterior, move, posterior.tables.c[0, :0])
    counts[FULL_PASS] += 1.0
    counts[INVALID] += not np.isfinite(change)
    return posterior.reference.inverse_temperature * change
