"""What a chain learns in warm-up, and freezes at its end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

from pymc_minibatch_mh.errors import BoundsError, ModeError
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.surrogate import whitened_norm

if TYPE_CHECKING:
    from pymc_minibatch_mh.chain.chain import Chain

#: Draws between two adaptations.
WINDOW = 50
#: Weight of what was learned before the last window.
FORGET = 0.97
#: The same for the mean of warm-up, whose first half may still be on its way.
FORGET_POSITION = 0.9
#: Distance from the centre, in excess of that of a Gaussian, up to which a window is no longer on
#: its way to the posterior: jumps before that say nothing about efficiency.
SETTLED = 4.0
#: Share of a window's batches that were noisier than predicted, above which the prediction grows.
UNDERESTIMATED_SHARE = 0.05
#: Root mean square displacement of the warm-up mean, in posterior sd, that moves the centre.
MOVED = 1.0


def draws_until_adaptation(chain: Chain) -> int:
    """Return how many draws a chain makes before it learns from them, or changes temperature."""
    state = chain.state
    if not state.adapting:
        return sys.maxsize
    stage = chain.stage
    made = state.n_draws - stage.begin
    return min(WINDOW - made % WINDOW, stage.end - state.n_draws)


def keep_books(chain: Chain, updates: int, positions: np.ndarray, counts: np.ndarray) -> None:
    """Count draws that were made; learn from them in warm-up, after each window.

    Parameters
    ----------
    chain
        The chain.
    updates
        Updates from draw to draw.
    positions : ndarray, shape (draws, d)
    counts : ndarray, shape (draws, N_COUNTS)
        What their updates have counted.
    """
    state, stage = chain.state, chain.stage
    state.n_draws += len(positions)
    state.n_updates += len(positions) * updates
    # PyMC's loop makes one draw at a time, whose sum would take as long as the draw.
    made = counts[0] if len(counts) == 1 else counts.sum(axis=0)
    state.n_full += int(made[entry.FULL_PASS])
    state.n_accepted += int(made[entry.ACCEPTED])
    if not state.adapting:
        return
    # One after the other, so that sums do not depend on how many draws are made at once.
    for position, of_draw in zip(positions, counts, strict=True):
        state.window_counts += of_draw
        state.warm_up_sum += position
    if (state.n_draws - stage.begin) % WINDOW == 0:
        _adapt(chain)
        away = _distance(chain, chain.position)
        state.settled = bool(away < np.sqrt(chain.position.size) + SETTLED)
    if state.n_draws == stage.end:
        _forget(chain)


def _forget(chain: Chain) -> None:
    """Begin anew at another temperature; the proposal keeps what it has learned so far."""
    state = chain.state
    for sums in (state.window, state.total, state.window_counts, state.total_counts):
        sums[:] = 0.0
    state.warm_up_sum[:] = 0.0
    state.warm_up_weight, state.settled = 0.0, False
    chain.change(test=chain.program.method.record(chain.prepared))


def _adapt(chain: Chain) -> None:
    state, program = chain.state, chain.program
    method, size = program.method, chain.position.size
    if state.settled:
        state.total = FORGET * state.total + state.window
    state.total_counts = FORGET * state.total_counts + state.window_counts
    proposal = program.proposal.adapted(
        state.proposal, state.window, state.total, method.walk_target, size
    )
    test = _adapted_test(chain)
    batches = WINDOW * program.updates_per_draw
    if state.window_counts[entry.UNDERESTIMATED] > UNDERESTIMATED_SHARE * batches:
        test = method.noisier(test)
    chain.change(proposal=proposal, test=test)
    state.window[:] = 0.0
    state.window_counts[:] = 0.0
    state.warm_up_sum *= FORGET_POSITION
    state.warm_up_weight = FORGET_POSITION * (state.warm_up_weight + WINDOW)


def _adapted_test(chain: Chain) -> object:
    state, program = chain.state, chain.program
    return program.method.adapted(
        state.test, state.total_counts, program.prepared, program.updates_per_draw
    )


def recentre(chain: Chain) -> None:
    """Move a centre that was sought to where a chain has been in warm-up, if that is far."""
    state = chain.state
    made = state.n_draws - chain.stage.begin
    if made < 2 * WINDOW or chain.prepared.target.covariance is not None:
        return
    mean = state.warm_up_sum / (state.warm_up_weight + made % WINDOW)
    if _distance(chain, mean) < MOVED * np.sqrt(mean.size):
        return
    target = chain.prepared.target
    target.source.others[:] = chain.others
    try:
        prepared = chain.prepared.around(mean)
    except (ModeError, BoundsError) as reason:
        # Any centre leaves the draws what they are; the old one has served all of warm-up.
        state.unmoved = str(reason)
        return
    chain.move_centre(prepared)
    chain.change(test=_adapted_test(chain))


def _distance(chain: Chain, position: np.ndarray) -> float:
    surrogate = chain.prepared.surrogate
    return float(whitened_norm(surrogate.whitener, position, surrogate.centre))
