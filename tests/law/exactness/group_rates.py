"""Transition matrices of Poisson tests whose candidates come at rates of groups of rows.

Rows on a line have a shared and an own direction, both along it. Groups are in different regions of
a move; with or without a copy of the rows.
"""

from dataclasses import dataclass, replace

import numpy as np

from helpers import wide as copies
from law.exactness import poisson, wide
from law.exactness.compiled import by_counts
from law.exactness.poisson import Chain
from pymc_minibatch_mh.bounds.geometry import Groups
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.native.moves import SHARP
from pymc_minibatch_mh.steps import tuna

LABELS = np.array([0, 1, 0, 1], np.int32)
#: Lengths of the line's unit along the direction of each group, besides 1 along the shared one.
OWN = np.array([1.0, 0.3])
SHARES = np.array([[0.1, 0.4], [0.4, 0.9], [0.9, 0.3], [0.5, 0.2]], np.float32)
RADII, FACTORS = (2.2, np.inf), (1.0, 2.5)
RULES = wide.RULES | {
    "raised": tuna.poisson_test("best")._replace(ceiling_factor=4.0, rate_factor=1.3)
}


@dataclass(frozen=True)
class GroupChain(Chain):
    """A chain with rates of rows, shape (S, S, N), and perhaps a copy of its rows."""

    rates: np.ndarray = None
    places: np.ndarray = None
    copy: object = None


def move(chain, settings, i, j, component):
    """Return the move from state i to state j, whose bounds are the rates of rows."""
    found = poisson.move(chain, settings, i, j, component)
    return replace(found, bounds=settings.rate_factor * chain.rates[i, j])


def log_products(rule, move, chain):
    """Return the log products over kept rows, by their own ceilings."""
    size = move.bounds.sum()
    raised = move.settings.rate_factor * chain.rates
    i, j = np.argwhere((raised == move.bounds).all(axis=2))[0]
    ends, factor = (chain.places[i], chain.places[j]), move.settings.ceiling_factor
    shares = np.array(
        [
            copies.shares(chain.copy, *ends, 0, factor, per_size=m)[row]
            for row, m in enumerate(move.bounds / table_bounds(chain.bounds, *ends))
        ]
    )
    rates = rule.rate(size, move.settings) * move.bounds / size * shares
    return wide.of_ceilings(rule, move, move.bounds * shares, rates)


def table_bounds(bounds, here, there):
    """Return c_i of each row: of the smallest region that holds for its group."""
    outer = np.maximum(np.abs(here), np.abs(there)) * np.sqrt(1.0 + OWN**2)
    return bounds * np.where(outer <= RADII[0], *FACTORS)[LABELS]


def line_chain(*, with_copy):
    """Return the wide chain on a line, with rates of groups."""
    chain = wide.line_chain()
    # Rates exceed changes several times, and enumerated counts are small.
    chain = replace(chain, bounds=chain.bounds / 2, log_likelihood=chain.log_likelihood / 2)
    places = chain.places
    units = SHARES[:, 0] + SHARES[:, 1] * OWN[LABELS]
    rates = np.array(
        [[table_bounds(chain.bounds, a, b) * abs(a - b) * units for b in places] for a in places]
    )
    fields = {name: getattr(chain, name) for name in Chain.__dataclass_fields__}
    return GroupChain(**fields, rates=rates, places=places, copy=chain.copy if with_copy else None)


def loop(name, *, with_copy):
    """Return the compiled loop of a rule on the line, and the matrix that is enumerated."""
    chain = line_chain(with_copy=with_copy)
    groups = Groups(np.ones((1, 1)), OWN[:, None], 1, 1, LABELS, SHARES)
    c = np.outer(FACTORS, chain.bounds).astype(np.float32)
    headers = np.array([[r, SHARP, x.sum()] for r, x in zip(RADII, c, strict=True)])
    tables = Tables(headers, c, groups=groups).arrays._asdict()
    if with_copy:
        tables["copy"] = chain.copy
    compiled = by_counts(chain, RULES[name]).but(**tables)
    rule = poisson.Rule(RULES[name], move=move)
    if with_copy:
        rule = replace(rule, log_products=lambda rule, own: log_products(rule, own, chain))
    return compiled, poisson.transition_matrix(chain, rule)
