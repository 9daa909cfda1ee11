"""The sampler stats: one table for steps, documentation and tests."""

from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning

from pymc_minibatch_mh.kernels import sums as entry

#: Name -> (dtype, meaning). All are scalars per draw. A name that PyMC's own steps use has their
#: type, or both could not own variables of one model: `accepted` is boolean in some of them and
#: not in others, so that no step beside all of them can have it.
STATS: dict[str, tuple[type, str]] = {
    "accept": (np.float64, "estimated acceptance probability, averaged over the draw's updates"),
    "accepted_share": (np.float64, "share of the draw's updates that were accepted"),
    "n_obs": (np.int64, "rows whose log-likelihood was evaluated in this draw"),
    "n_looks": (np.int64, "looks that the test took in this draw"),
    "full_pass": (np.int64, "updates of this draw that read all rows"),
    "log_ratio": (np.float64, "estimated log ratio of the last update"),
    "log_ratio_std": (np.float64, "its standard error; 0 after a full pass"),
    "error_estimate": (np.float64, "estimated error of the acceptance probability, averaged"),
    "bound_ratio": (np.float64, "largest change of a row that was read, in units of its bound"),
    "certified": (np.bool_, "whether the draw is exact by bounds that the model itself gave"),
    "invalid": (np.int64, "updates rejected because a log-density was not finite"),
    "scaling": (np.float64, "scale of the random walk"),
    "temperature": (np.float64, "temperature K of the log-likelihood"),
    "perf_counter_diff": (np.float64, "seconds spent in the draw"),
}

STATS_DTYPES_SHAPES: dict[str, tuple[Any, Any]] = {
    **{name: (dtype, []) for name, (dtype, _) in STATS.items()},
    "warning": (SamplerWarning, None),
}


def stats_of_draw(sums: np.ndarray, n_updates: int) -> dict[str, Any]:
    """Return what the updates of one draw have counted, under the names of the stats."""
    return {
        "accept": sums[entry.ACCEPT] / n_updates,
        "accepted_share": sums[entry.ACCEPTED] / n_updates,
        "n_obs": int(sums[entry.N_OBS]),
        "n_looks": int(sums[entry.N_LOOKS]),
        "full_pass": int(sums[entry.FULL_PASS]),
        "log_ratio": sums[entry.LOG_RATIO],
        "log_ratio_std": sums[entry.LOG_RATIO_STD],
        "error_estimate": sums[entry.ERROR] / n_updates,
        "bound_ratio": sums[entry.BOUND_RATIO],
        "invalid": int(sums[entry.INVALID]),
    }
