"""Chains on several states that the compiled loop runs, to be held against their enumeration.

A state is known to the loop by its position on a line. The proposal carries the ratio of its
densities, and the prior the expansion, as the shipped ones do.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numba import carray, cfunc, types
from scipy.stats import chi2

from law.exactness import enumeration
from law.exactness import poisson as counts
from law.exactness.toys import Jump, jump, prior, rows_of
from native.chain import draws_of, line
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.native.bound_tables import no_tables
from pymc_minibatch_mh.native.moves import GIVEN
from pymc_minibatch_mh.native.posterior import Posterior

#: Workers that the loops are compiled by: of tests by bounds, and of tests on batches.
BY_BOUNDS, ON_BATCHES = (pytest.mark.xdist_group(f"toys {x}") for x in ("by bounds", "on batches"))
#: Expected number of transitions from which a cell counts by itself.
FEWEST = 20.0


def posterior_of(rows, beta, tables=None, most_drawn=np.inf):
    """Return the posterior of rows that `toys.rows_of` laid out, on a line."""
    tables = no_tables() if tables is None else tables
    return Posterior(prior, rows, line(beta), tables, float(most_drawn))


def grouped(by_bounds, on_batches):
    """Return the names of cases for a parametrised test, each with its worker."""
    return [
        pytest.param(name, id=name, marks=mark)
        for names, mark in ((by_bounds, BY_BOUNDS), (on_batches, ON_BATCHES))
        for name in names
    ]


@dataclass(frozen=True)
class Compiled:
    """A posterior, moves and a test, for the loop."""

    posterior: Posterior
    proposal: Jump
    settings: Any

    def transitions(self, updates, seed):
        """Return how often each state was followed by each, shape (S, S)."""
        positions = self.proposal.positions
        visited, _ = self.run(updates + 1, seed)
        states = np.abs(visited[:, None] - positions).argmin(axis=1)
        found = np.zeros((positions.size,) * 2)
        np.add.at(found, (states[:-1], states[1:]), 1.0)
        return found

    def run(self, count, seed, **options):
        """Return the positions before each draw, and what each has counted: see `draws_of`."""
        start = float(self.proposal.positions[0])
        run = self.posterior, self.proposal, self.settings, start
        return draws_of(*run, count=count, seed=seed, **options)

    def but(self, **parts):
        """Return the same with other parts: of itself, of the posterior or of its tables."""
        tables, posterior = self.posterior.bounds, self.posterior
        own = {name: parts.pop(name) for name in ("proposal", "settings") if name in parts}
        of_tables = {name: parts.pop(name) for name in tables._fields if name in parts}
        posterior = posterior._replace(bounds=tables._replace(**of_tables), **parts)
        return replace(self, posterior=posterior, **own)


def chance(found, matrix):
    """Return the p-value of one-step frequencies: chi-square, rare transitions joined."""
    statistic, degrees = 0.0, 0
    for row, law in zip(found, matrix, strict=True):
        expected = law * row.sum()
        often = expected >= FEWEST
        exprs = np.append(row[often], row[~often].sum())
        means = np.append(expected[often], expected[~often].sum())
        kept = means > 1e-6
        if exprs[~kept].any():
            return 0.0
        statistic += ((exprs - means)[kept] ** 2 / means[kept]).sum()
        degrees += max(kept.sum() - 1, 0)
    return float(chi2(degrees).sf(statistic))


def by_looks(chain, rule, positions, proposals=None, *, second=4, **rows):
    """Return a chain under a test that reads batches, its rows in two terms."""
    light = np.delete(chain.log_likelihood, chain.heavy, axis=1)
    beta = chain.inverse_temperature
    # Differences of a normal mean are linear in the move: their variance goes with its square.
    gap = (light[1] - light[0]) / (positions[1] - positions[0])
    kappa = float(enumeration.audited_spread(gap, beta))
    table = chain.log_likelihood
    space = rows_of(table, chain.log_prior, positions, second=second, **rows)
    tables = no_tables()._replace(heavy=np.array(chain.heavy, np.int64))
    posterior = posterior_of(space, beta, tables, 0.5 * table.shape[1])
    settings = rule.settings._replace(kappa=kappa)
    return Compiled(posterior, jump(positions, proposals), settings)


@cache
def _metric(positions, sizes):
    """Return M of moves among states; what is compiled is never forgotten."""
    places, numbers = np.array(positions), np.array(sizes)

    @cfunc(types.float64(*[types.CPointer(types.float64)] * 2, types.int64))
    def metric(position, new, size):
        here, there = carray(position, 1)[0], carray(new, 1)[0]
        return numbers[np.argmin(np.abs(places - here)), np.argmin(np.abs(places - there))]

    return metric


def by_counts(chain, settings, *, second=1):
    """Return a chain with a mixture of asymmetric proposals under a Poisson test."""
    # States outside lie beyond the radius of the table.
    positions = np.where(chain.outside, 100.0, 0.0) + np.arange(len(chain.log_prior))
    beta = chain.inverse_temperature
    cheap = chain.log_prior + beta * chain.expansion.sum(axis=1)
    table = chain.log_likelihood - chain.expansion
    c = chain.bounds.astype(np.float32)[None]
    headers = np.array([[50.0, GIVEN, c.sum(dtype=np.float64)]])
    tables = Tables(headers, c).reading_always(np.array(chain.heavy, np.int64))
    metric = _metric(tuple(positions), tuple(map(tuple, chain.sizes)))
    rows = rows_of(table, cheap, positions, second=second)
    arrays = tables.arrays._replace(metric=metric)
    proposal = jump(positions, chain.proposals, chain.weights)
    return Compiled(posterior_of(rows, beta, arrays), proposal, settings)


def matrix_by_counts(chain, settings):
    """Return the enumerated transition matrix, its diagonal with the proposals to stay."""
    return counts.transition_matrix(chain, counts.Rule(settings))
