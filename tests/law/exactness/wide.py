"""Transition matrices of Poisson tests that drop candidates by a copy of whitened rows.

Rows change by as much as their derivatives allow, and the shares are those of the shipped kernel:
a ceiling that is too low anywhere moves the law.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np

from helpers import wide
from law.exactness import poisson
from law.exactness.compiled import by_counts
from law.exactness.poisson import Chain, Move, Rule
from pymc_minibatch_mh.native.whitened_copy import WhitenedCopy, empty_lines, width_of
from pymc_minibatch_mh.steps import tuna

ROWS, STATES, SIZE = 4, 4, 6


@dataclass(frozen=True)
class WideChain(Chain):
    """A chain with the whitened positions of its states, and a copy of its rows."""

    places: np.ndarray = None
    copy: WhitenedCopy = None
    order: int = 2

    def shares(self, i, j, factor):
        """Return own ceilings of rows over c_i M."""
        ends = self.places[i], self.places[j]
        return wide.shares(self.copy, *ends, self.order, factor, per_size=self.sizes[i, j])


@dataclass(frozen=True)
class WideMove(Move):
    """A move with the shares of candidates that are kept."""

    shares: np.ndarray = None


def move(chain, settings, i, j, component):
    """Return the move from state i to state j."""
    found = poisson.move(chain, settings, i, j, component)
    return WideMove(**vars(found), shares=chain.shares(i, j, settings.ceiling_factor))


def log_products(rule, move):
    """Return the log products over kept rows: candidates are kept by their shares, then thinned."""
    size = move.bounds.sum()
    ceilings = move.bounds * move.shares
    rates = rule.rate(size, move.settings) * move.bounds / size * move.shares
    return of_ceilings(rule, move, ceilings, rates)


def of_ceilings(rule, move, ceilings, rates):
    """Return the log products, and their probabilities, of rows that come at some rates."""
    size, products, weights = move.bounds.sum(), np.zeros(1), np.ones(1)
    changes = np.clip(move.changes, -ceilings, ceilings)
    for change, ceiling, rate in zip(changes, ceilings, rates, strict=True):
        keep, log_ratio = rule.thin(change, ceiling, size, move.settings)
        counts, masses = poisson.counts_of(rate * keep)
        added = np.zeros(len(counts))
        added[counts > 0] = counts[counts > 0] * log_ratio
        products = np.add.outer(products, added).ravel()
        weights = np.multiply.outer(weights, masses).ravel()
        matters = weights >= poisson.NEGLIGIBLE
        products, weights = products[matters], weights[matters]
    return products, weights


RULES = {
    "best": tuna.poisson_test("best"),
    "best, factor 2.5": tuna.poisson_test("best")._replace(ceiling_factor=2.5),
    "best, chi": tuna.poisson_test("best", 0.7),
    "paper, factor 2.5": tuna.poisson_test("paper", 0.3)._replace(ceiling_factor=2.5),
    "best, delayed": tuna.poisson_test("best", delayed_acceptance=True),
    "factorized": tuna.poisson_test("factorized"),
}


def rule(name, **replaced):
    """Return a shipped rule on wide chains, of which something is replaced."""
    return Rule(RULES[name], **{"move": move, "log_products": log_products} | replaced)


def random_chain(rng, order, own, n_shared):
    """Return a chain whose rows change as much as their bounds allow, C M being 2 at most."""
    basis = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0]
    shared, rows = basis[:n_shared], rng.normal(size=(ROWS, own, SIZE))
    places = rng.normal(size=(STATES, SIZE))
    # The second state lies right across the first one: rows change from one extreme to the other.
    places[1] = -places[0]
    # A row reads one direction of those that it may read.
    reach = np.concatenate([rows, np.broadcast_to(shared, (ROWS, *shared.shape))], axis=1)
    read = (rng.normal(size=(ROWS, own + n_shared, 1)) * reach).sum(axis=1)
    read /= np.linalg.norm(read, axis=1, keepdims=True)
    beta, bounds = rng.uniform(0.5, 1.5), rng.uniform(0.5, 1.5, size=ROWS)
    sizes = np.array([[wide.size(a, b, order) for b in places] for a in places])
    bounds *= 2.0 / (bounds.sum() * sizes.max())
    remainder = wide.largest_remainder(places @ read.T, order) * bounds / beta
    proposals = rng.uniform(0.2, 1.0, size=(1, STATES, STATES))
    return WideChain(
        log_prior=0.7 * rng.normal(size=STATES),
        log_likelihood=remainder,
        expansion=np.zeros((STATES, ROWS)),
        inverse_temperature=beta,
        weights=np.ones(1),
        proposals=proposals / proposals.sum(axis=2, keepdims=True),
        bounds=bounds,
        sizes=sizes,
        outside=np.zeros(STATES, dtype=bool),
        places=places,
        copy=wide.copy_of(rows, shared),
        order=order,
    )


@cache
def chains():
    """Return chains of each order, of rows with one direction and with several."""
    rng = np.random.default_rng(31)
    kinds = ((1, 0), (1, 1), (2, 0), (2, 1))
    return [random_chain(rng, order, *kind) for order, kind in product((0, 1, 2, 3), kinds)]


def line_chain():
    """Return a chain on a line whose rows see shares of moves, as the compiled loop runs it."""
    rng = np.random.default_rng(5)
    seen = np.array([0.2, 0.5, 1.0, 0.4])
    places = np.arange(STATES, dtype=float)[:, None]
    chain = random_chain(rng, 0, 1, 0)
    steps = rng.uniform(0.7, 1.0, size=(STATES, ROWS)) * rng.choice([-1.0, 1.0], (STATES, ROWS))
    bounds = rng.uniform(0.4, 0.8, size=ROWS).astype(np.float32).astype(float)
    lines = empty_lines(ROWS, width_of(1, 1))
    lines[:] = 0
    for line, share in zip(lines, seen, strict=True):
        line[:4].view(np.float32)[0] = share / 127.0
        line[8] = 127
    return replace(
        chain,
        log_likelihood=np.cumsum(steps, axis=0) * seen * bounds / chain.inverse_temperature,
        bounds=bounds,
        sizes=1.05 * np.abs(places - places[:, 0]) + 1e-9,
        places=places,
        copy=WhitenedCopy(lines, np.empty((0, 1)), 1),
        order=0,
    )


def loop(name):
    """Return the compiled loop of a rule on the line, and the matrix that is enumerated."""
    chain = line_chain()
    compiled = by_counts(chain, RULES[name]).but(copy=chain.copy)
    return compiled, poisson.transition_matrix(chain, rule(name))
