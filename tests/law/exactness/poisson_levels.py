"""Transition matrices of PoissonMH, summed over every vector of counts.

The functions that are enumerated are the shipped `keep_by_level` and `growth_of_level`. Row i is
kept a Poisson number of times with mean R M_i/L times its probability to be kept. Log-likelihoods
are relative to those of the first state.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from helpers.published import growth_of_level, keep_by_level
from law.exactness.compiled import Compiled, posterior_of
from law.exactness.poisson import NEGLIGIBLE, accept, counts_of, mixture_matrix
from law.exactness.toys import jump, rows_of
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.native.moves import CONSTANT
from pymc_minibatch_mh.published import poisson as levels

#: How much wider the ranges are than they have to be.
MARGIN = 1.15


def ranges(chain):
    """Return M_i and m_i of a chain, the ends of β times relative log-likelihoods, shape (N,)."""
    level = chain.inverse_temperature * (chain.log_likelihood - chain.log_likelihood[0])
    low, high = MARGIN * level.min(axis=0), MARGIN * level.max(axis=0)
    return high - low, -low


def shares(chain, state):
    """Return where in their ranges the log-likelihoods lie."""
    widths, below = ranges(chain)
    level = chain.inverse_temperature * (chain.log_likelihood[state] - chain.log_likelihood[0])
    return (below + level) / widths


@dataclass(frozen=True)
class Rule:
    """The shipped functions and what they are handed; a mutant replaces one of them."""

    settings: levels.LevelsTest
    shares: Callable = shares
    ranges: Callable = ranges


def acceptance(chain, rule, cheap, i, j):
    """Return the probability that a move from state i to state j is accepted."""
    beta, lam = chain.inverse_temperature, rule.settings.lam
    widths, _ = rule.ranges(chain)
    total = widths.sum()
    if lam + total > rule.settings.max_rate:
        change = beta * (chain.log_likelihood[j] - chain.log_likelihood[i]).sum()
        return accept(cheap, change, 0.0)
    products, weights = np.zeros(1), np.ones(1)
    here, there = (np.clip(rule.shares(chain, k), 0.0, 1.0) for k in (i, j))
    for width, share, new in zip(widths, here, there, strict=True):
        kept = (lam + total) * width / total * keep_by_level(share, lam / total)
        counts, masses = counts_of(kept)
        products = np.add.outer(products, counts * growth_of_level(share, new, lam / total)).ravel()
        weights = np.multiply.outer(weights, masses).ravel()
        matters = weights >= NEGLIGIBLE
        products, weights = products[matters], weights[matters]
    return weights @ accept(cheap, products, 0.0)


def transition_matrix(chain, rule):
    """Return the transition matrix of a rule."""

    def accepted(i, j, k):
        q = chain.proposals[k]
        cheap = chain.log_prior[j] - chain.log_prior[i] + np.log(q[j, i] / q[i, j])
        return acceptance(chain, rule, cheap, i, j)

    return mixture_matrix(chain, accepted)


def compiled(chain, settings):
    """Return a chain for the loop, its rows in two terms."""
    rows = rows_of(chain.log_likelihood, chain.log_prior, second=1)
    c = np.stack(ranges(chain)).astype(np.float32)
    totals = c.sum(axis=1, dtype=np.float64)
    headers = np.array([[np.inf, CONSTANT, totals[0]], [-1.0, CONSTANT, totals[1]]])
    posterior = posterior_of(rows, chain.inverse_temperature, Tables(headers, c).arrays)
    proposal = jump(np.arange(len(chain.log_prior)), chain.proposals, chain.weights)
    return Compiled(posterior, proposal, settings)
