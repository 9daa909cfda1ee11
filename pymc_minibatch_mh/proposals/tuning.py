"""The scale of a move, brought to an acceptance in warm-up."""

import numpy as np

from pymc_minibatch_mh.kernels.counts import TALLY_ACCEPT, TRIED


def tuned(scale: float, window: np.ndarray, total: np.ndarray, target: float) -> float:
    """Return the scale of a move after a window of warm-up.

    Parameters
    ----------
    scale
        The scale before.
    window, total : ndarray, shape (N_TALLIES,)
        Tallies of the move in the last window, and in all of warm-up.
    target
        Acceptance that it is moved to.
    """
    if not window[TRIED] > 0.0:
        return scale
    gap = window[TALLY_ACCEPT] / window[TRIED] - target
    # One try says little: a gain of one is for windows of ten.
    few = min(1.0, window[TRIED] / 10.0)
    gain = few * min(1.0, 10.0 / np.sqrt(max(total[TRIED], 1.0)))
    return float(scale * np.exp(gain * gap))
