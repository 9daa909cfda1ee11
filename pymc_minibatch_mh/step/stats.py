"""The sampler stats: one table for steps, documentation and tests."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning

from pymc_minibatch_mh.kernels import counts as entry

#: Name -> (dtype, meaning). All are scalars per draw. A name that PyMC's own steps use has their
#: type, or both could not own variables of one model: `accepted` is boolean in some of them and
#: not in others, so that no step beside all of them can have it.
STATS: dict[str, tuple[type, str]] = {
    "accept": (np.float64, "estimated acceptance probability, averaged over the draw's updates"),
    "accepted_share": (np.float64, "share of the draw's updates that were accepted"),
    "n_obs": (np.int64, "rows whose log-likelihood was evaluated in this draw"),
    "n_looks": (np.int64, "looks that the test took in this draw"),
    "full_pass": (np.int64, "updates of this draw that read all rows"),
    "n_bright": (np.int64, "rows that were bright in the last update; 0 but for FireflyMH"),
    "n_prior": (np.int64, "evaluations of the prior part by moves without rows"),
    "log_ratio": (np.float64, "estimated log ratio of the last update"),
    "log_ratio_std": (np.float64, "its standard error; 0 after a full pass"),
    "error_estimate": (np.float64, "estimated error of the acceptance probability, averaged"),
    "bound_ratio": (np.float64, "largest change of a row that was read, in units of its bound"),
    "certified": (np.bool_, "whether the draw is exact by bounds that the model itself gave"),
    "invalid": (np.int64, "updates rejected because a log-density was not finite"),
    "scaling": (np.float64, "scale of the random walk"),
    "temperature": (np.float64, "temperature K of the log-likelihood in this draw"),
    "perf_counter_diff": (np.float64, "seconds spent in the draw"),
}

STATS_DTYPES_SHAPES: dict[str, tuple[Any, Any]] = {
    **{name: (dtype, []) for name, (dtype, _) in STATS.items()},
    "warning": (SamplerWarning, None),
}


#: Stats that are counted: name -> (entry of the counts, whether it is averaged over updates).
COUNTED: dict[str, tuple[int, bool]] = {
    "accept": (entry.ACCEPT, True),
    "accepted_share": (entry.ACCEPTED, True),
    "n_obs": (entry.N_OBS, False),
    "n_looks": (entry.N_LOOKS, False),
    "full_pass": (entry.FULL_PASS, False),
    "n_bright": (entry.N_BRIGHT, False),
    "n_prior": (entry.N_PRIOR, False),
    "log_ratio": (entry.LOG_RATIO, False),
    "log_ratio_std": (entry.LOG_RATIO_STD, False),
    "error_estimate": (entry.ERROR, True),
    "bound_ratio": (entry.BOUND_RATIO, False),
    "invalid": (entry.INVALID, False),
}
#: Their Python types, which PyMC's loop stores in those of the table.
_PYTHON = {name: float if STATS[name][0] is np.float64 else int for name in COUNTED}


def stats_of_draw(counts: np.ndarray, n_updates: int) -> dict[str, Any]:
    """Return what the updates of one draw have counted, under the names of the stats."""
    return {
        name: _PYTHON[name](counts[place] / n_updates if averaged else counts[place])
        for name, (place, averaged) in COUNTED.items()
    }


def write_stats(
    stats: Mapping[str, np.ndarray], where: tuple[int, slice], counts: np.ndarray, n_updates: int
) -> None:
    """Write what the updates of some draws have counted into arrays of stats.

    Parameters
    ----------
    stats
        Name -> array of shape (chains, draws).
    where
        Chain and draws.
    counts : ndarray, shape (draws, N_COUNTS)
    n_updates
        Updates from draw to draw.
    """
    for name, (place, averaged) in COUNTED.items():
        stats[name][where] = counts[:, place] / n_updates if averaged else counts[:, place]
