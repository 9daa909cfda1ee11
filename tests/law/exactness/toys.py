"""The proposal and the rows of hand-made chains, as the library's loop runs them.

A chain moves among a few states, each known by its first coordinate. All that tells one chain from
another is data: `toys.c` is compiled once.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from helpers.in_c import address
from pymc_minibatch_mh.native.library import ffi

# The first words of a context: address of the numbers of the rows that lie in each place, 0 where
# they are their own; number of states and of rows; first row of the second term; calls of
# `differences` so far where every other one reads the rows of the call before, else below 0.
PLACES, STATES, ROWS, SECOND, CALLS, HEAD = range(6)
#: M of every move by `metric`.
METRIC = 2.0

_SOURCE = Path(__file__).with_suffix(".c")
#: A move among states; the log-density of a state; by how much rows differ in two states; M.
propose, prior, differences, metric = (
    address(_SOURCE, f"toy_{name}") for name in ("propose", "prior", "differences", "metric")
)
# Mutants import this module again, and a struct is declared once.
if "toy_jump" not in ffi.list_types()[0]:
    ffi.cdef(
        """typedef struct toy_jump {
            int64_t n_states; int64_t n_weights; const double *positions; const double *weights;
            const double *sums; const double *ratios; double *furthest;
        } toy_jump;"""
    )


class Jump(NamedTuple):
    """A mixture of moves among states, of the first coordinate alone.

    Shapes: positions (S,), weights (K,), of at most two components, sums and ratios (K, S, S),
    furthest (1,). The sums are proposal probabilities, cumulated over their last axis; the ratios
    are what the loop is told of log q(position | new) - log q(new | position). `furthest` keeps how
    far the whitened position that the loop hands over was from what it should be.
    """

    LAYOUT, propose = "toy_jump", propose

    positions: np.ndarray
    weights: np.ndarray
    sums: np.ndarray
    ratios: np.ndarray
    furthest: np.ndarray

    @property
    def n_states(self):
        return self.positions.size

    @property
    def n_weights(self):
        return self.weights.size


class Rows(NamedTuple):
    """Rows of a line that are graphs: ``mh_rows``."""

    term_starts: np.ndarray
    context: np.ndarray
    size: int = 1
    terms: None = None
    differences: int = differences
    derivatives: None = None
    groups: None = None

    @property
    def n_terms(self):
        return self.term_starts.size - 1


def jump(positions, proposals=None, weights=(1.0,), ratios=None):
    """Return moves by some densities, shape (K, S, S): by default to each other state alike."""
    states = len(positions)
    if proposals is None:
        proposals = (1.0 - np.eye(states)) / max(states - 1, 1)
    proposals = np.reshape(proposals, (-1, states, states))
    if ratios is None:
        back = proposals.transpose(0, 2, 1)
        both = (proposals > 0.0) & (back > 0.0)
        ratios = np.log(np.divide(back, proposals, out=np.ones(proposals.shape), where=both))
    ratios = np.reshape(np.asarray(ratios, dtype=float), (-1, states, states))
    parts = np.array(positions, dtype=float), np.array(weights), np.cumsum(proposals, axis=2)
    return Jump(*parts, ratios, np.zeros(1))


def rows_of(table, log_prior=None, positions=None, *, second=0, places=0):
    """Return the rows of a chain, and its prior, as `toys.c` reads them.

    Parameters
    ----------
    table
        Log-likelihoods, shape (S, N). Rows of a single state change by them in every move.
    log_prior, positions
        Of the states, shape (S,); by default flat, and 0, 1, ...
    second
        First row of a second term; 0 for a single one.
    places
        Address of the numbers of the rows that lie in each place.
    """
    table = np.atleast_2d(table)
    states, rows = table.shape
    log_prior = np.zeros(states) if log_prior is None else log_prior
    positions = np.arange(states) if positions is None else positions
    head = [places, states, rows, second, -1]
    numbers = np.concatenate([positions, log_prior, table.ravel()]).astype(np.float64)
    # Behind the numbers is room for the rows of a batch.
    context = np.append(np.array(head, np.int64), [*numbers.view(np.int64), *[0] * rows])
    return Rows(np.array([0, second, rows] if second else [0, rows]), context)
