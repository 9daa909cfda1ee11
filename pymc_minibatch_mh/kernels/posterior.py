"""The posterior as updates know it, and how they read rows of it."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.bound_tables import BoundTables
from pymc_minibatch_mh.kernels.draw import arrange, arrange_block, change_of_all, has_failed
from pymc_minibatch_mh.kernels.handle import function_at
from pymc_minibatch_mh.kernels.roles import EVALUATE, LOGP
from pymc_minibatch_mh.kernels.vectors import inner_by, scratch


class Surrogate(NamedTuple):
    """Control variates around a centre, frozen while a chain runs.

    Parameters
    ----------
    centre : ndarray, shape (d,)
        Where the expansion is made.
    factor : ndarray, shape (d, d)
        L with L Lᵀ = A⁻¹, A the posterior precision at the centre.
    whitener : ndarray, shape (d, d)
        L⁻¹, so that |L⁻¹ δ| is the distance in posterior standard deviations.
    gradient : ndarray, shape (d,)
        Sum of the gradients of all rows at the centre; zero at order 0.
    hessian : ndarray, shape (d, d)
        Sum of their Hessians; zero below order 2.
    order
        Order of the expansion.
    inverse_temperature
        β, which multiplies the log-likelihood only.
    first
        First coordinate that is moved; those before it belong to other steps.
    relative
        β over the one that bounds and the predicted noise of rows were found at, which both are
        proportional to at order 0; 1 except where a schedule of temperatures is on its way.
    """

    centre: np.ndarray
    factor: np.ndarray
    whitener: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    order: int
    inverse_temperature: float
    first: int = 0
    relative: float = 1.0


@compiled(inlined=True)
def expansion_change(surrogate, position, new):
    """Return β [T(new) - T(position)] without the cancellation of two large values."""
    middle, step = scratch(position.size, np.float64), scratch(position.size, np.float64)
    total = 0.0
    for j in range(position.size):
        middle[j] = 0.5 * ((position[j] - surrogate.centre[j]) + (new[j] - surrogate.centre[j]))
        step[j] = new[j] - position[j]
        total += surrogate.gradient[j] * step[j]
    total += inner_by(surrogate.hessian, step, middle)
    return surrogate.inverse_temperature * total


@compiled()
def whitened_norm(whitener, position, origin):
    """Return the distance from `origin` in posterior standard deviations."""
    total = 0.0
    for i in range(position.size):
        cell = 0.0
        for j in range(i + 1):
            cell += whitener[i, j] * (position[j] - origin[j])
        total += cell * cell
    return np.sqrt(total)


#: Rows that a full pass inside an update reads at a time.
BLOCK = 2048


class RowSpace(NamedTuple):
    """Where the rows are: first row of each term, and what compiled rows are found by.

    The context holds addresses of the other variables and of the arrays, and for rows that are
    functions of linear forms also their functions and where each form's coefficients lie.
    """

    term_starts: np.ndarray
    context: np.ndarray


class Posterior(NamedTuple):
    """A tempered posterior: a cheap part, the remainders of rows, and what bounds these.

    Parameters
    ----------
    prior, evaluate
        Addresses of the prior part (``LOGP``) and of the remainders' differences (``EVALUATE``).
    space
        Where the rows are.
    surrogate
        Control variates.
    tables
        Bounds of the remainders; none for tests without.
    most_drawn
        Rows from which on a look reads all of them instead.
    """

    prior: int
    evaluate: int
    space: RowSpace
    surrogate: Surrogate
    tables: BoundTables
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
    return expansion_change(posterior.surrogate, move.position, move.new)


@compiled(inlined=True)
def read_drawn(posterior, move, drawn, rows, ends, differences, scales):
    """Write the differences of remainders of drawn rows, term by term, and their scales.

    Also written are `rows`, their numbers within their terms in the order of the differences, and
    `ends`, where each term ends.
    """
    space = posterior.space
    arrange(drawn, 0, drawn.size, space.term_starts, rows, ends)
    evaluate = function_at(posterior.evaluate, EVALUATE)
    centre, context = posterior.surrogate.centre, space.context
    evaluate(move.position, move.new, centre, rows, ends, context, differences, scales)


@compiled()
def read_chosen(posterior, move, chosen, c):
    """Sum the differences of chosen rows, and their squares over c: see :func:`read_all`."""
    change, squares = 0.0, 0.0
    starts = posterior.space.term_starts
    rows, ends = np.empty(BLOCK, np.int64), np.empty(starts.size - 1, np.int64)
    differences, scales = np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, chosen.size, BLOCK):
        some = chosen[first : first + BLOCK]
        count = some.size
        read_drawn(posterior, move, some, rows[:count], ends, differences, scales)
        term = 0
        for i in range(count):
            while i >= ends[term]:
                term += 1
            row = rows[i] + starts[term]
            change += differences[i]
            if c.size and c[row] > 0.0:
                squares += differences[i] ** 2 / c[row]
    return change, squares


@compiled()
def read_all(posterior, move, c):
    """Sum the differences of all rows, and their squares over c, in bounded memory.

    Parameters
    ----------
    posterior : Posterior
    move : Move
    c : ndarray of float32, shape (N,)
        Bounds of the rows; empty where none are asked about.

    Returns
    -------
    tuple
        Σ d_i, and Σ d_i²/c_i over rows that can change; NaN for that where rows are stored.
    """
    if posterior.tables.supply.room > 0:
        return change_of_all(posterior.tables.supply), np.nan
    space, centre = posterior.space, posterior.surrogate.centre
    evaluate = function_at(posterior.evaluate, EVALUATE)
    total = space.term_starts[-1]
    rows = np.empty(BLOCK, np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences = np.empty(BLOCK)
    scales = np.empty(BLOCK)
    change, squares = 0.0, 0.0
    for first in range(0, total, BLOCK):
        last = min(first + BLOCK, total)
        arrange_block(first, last, space.term_starts, rows, ends)
        some, count = rows[: last - first], last - first
        evaluate(move.position, move.new, centre, some, ends, space.context, differences, scales)
        for i in range(count):
            change += differences[i]
        for i in range(min(count, c.size - first)):
            if c[first + i] > 0.0:
                squares += differences[i] ** 2 / c[first + i]
    return change, squares
