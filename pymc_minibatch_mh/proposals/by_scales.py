"""Laplace moves and random walks of hierarchies: effects given their scales.

The normal approximation of a hierarchy fails where its scales are far from their centre: there the
effects of groups have another spread. Here all moves are made in numbers (u, w) that are standard
normal where effects are normal given their scales, whatever the distribution of the scales
(:mod:`pymc_minibatch_mh.kernels.by_scales`). A walk of these numbers moves a scale and the effects
with it, as far as rows do not hold them: a partial non-centring (Papaspiliopoulos, Roberts & Sköld,
Statistical Science 22:59-73, 2007, doi:10.1214/088342307000000014). What the map from them to the
position stretches is corrected for.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.by_scales import (
    ByScales,
    place_by_scales,
    size_of_work,
    whiten_by_scales,
)
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.proposals.bordered import drawn_component


class ByScalesNumbers(NamedTuple):
    """Numbers of a mixture in a chain, and the distribution that its moves are drawn by.

    Parameters
    ----------
    scale, weights, rho
        See :class:`pymc_minibatch_mh.proposals.mixture.MixtureNumbers`.
    tables
        The distribution.
    work : ndarray
        Scratch of this chain.
    """

    scale: float
    weights: np.ndarray
    rho: np.ndarray
    tables: ByScales
    work: np.ndarray


@role_of(ByScalesNumbers, "propose")
@compiled(inlined=True)
def propose_by_scales(numbers, move, posterior, rng):
    """Draw a component, then a move from it: see :func:`roles.propose`."""
    # Both are overwritten once a move is made.
    here, white = move.step, move.there
    component = drawn_component(numbers.weights, rng)
    log_q = whiten_by_scales(numbers.tables, move.position, here, numbers.work)
    if component == 0:
        for i in range(here.size):
            white[i] = here[i] + numbers.scale * rng.standard_normal()
    else:
        rho = numbers.rho[component - 1]
        scale = np.sqrt(1.0 - rho * rho)
        for i in range(here.size):
            white[i] = rho * here[i] + scale * rng.standard_normal()
            log_q += 0.5 * (white[i] * white[i] - here[i] * here[i])
    log_q -= place_by_scales(numbers.tables, white, move.new, numbers.work)
    return log_q, component


def given_scales(record: Any, prepared: Any) -> Any:
    """Return the numbers of a mixture as they are, or with the tables of a hierarchy.

    Parameters
    ----------
    record : MixtureNumbers
        Numbers of a chain.
    prepared : Prepared
        What the chain runs on.
    """
    tables = prepared.by_scales
    if tables is None:
        return record
    own: tuple[float, np.ndarray, np.ndarray] = record[:3]
    return ByScalesNumbers(*own, tables, np.zeros(size_of_work(tables)))
