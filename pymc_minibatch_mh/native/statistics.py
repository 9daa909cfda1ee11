"""Statistics of draws: counts of the updates, by the field names of the library's records."""

from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import dtype_of

#: Record type for counts of a draw's updates.
COUNTS = dtype_of("mh_counts")
#: Record types for acceptance statistics: of a proposal's component, and of a move type.
TALLY, KIND_TALLY = dtype_of("mh_tally"), dtype_of("mh_kind_tally")


def numbers(records: np.ndarray) -> np.ndarray:
    """View of contiguous records as numbers, in the same memory.

    The shape has one more axis than the records, for their fields.
    """
    return records.reshape(-1).view(np.float64).reshape(*records.shape, records.itemsize // 8)


def summed(records: np.ndarray) -> np.void:
    """Sum of records, as one record."""
    return numbers(records).sum(axis=0).view(records.dtype)[0]


#: Features that a statistic may need: steps without it leave it out, as it would always be zero.
type Feature = Literal[
    "batches",
    "bounds",
    "bright rows",
    "ceilings",
    "slices",
    "nodes",
    "effects",
    "scales",
    "directions",
]


class Statistic(NamedTuple):
    """A statistic of a draw: type, meaning, and the name of its count if it has one.

    Averages are divided by the number of updates. Traces include it if the step has the feature
    that it `needs`.
    """

    dtype: type
    meaning: str
    entry: str | None = None
    needs: Feature | None = None
    averaged: bool = False


#: Statistic that is averaged over the updates of a draw.
_mean = partial(Statistic, np.float64, averaged=True)

#: All are scalars per draw. A name that PyMC's steps use has the same type, so that both can sample
#: one model. `accepted` is boolean in some PyMC steps and not in others, so no step here uses that
#: name.
STATS = {
    "accept": _mean("estimated acceptance probability", "accept"),
    "accepted_share": _mean("share of accepted updates", "accepted"),
    "n_obs": Statistic(np.int64, "evaluations of rows, each of them counted", "n_obs"),
    "n_looks": Statistic(np.int64, "looks that the test took", "n_looks", "batches"),
    "full_pass": Statistic(np.int64, "updates that read all rows", "full_pass"),
    "n_bright": Statistic(np.int64, "bright rows in the last update", "n_bright", "bright rows"),
    "n_prior": Statistic(np.int64, "evaluations of the prior by slice moves", "n_prior", "slices"),
    "n_candidates": Statistic(np.int64, "rows drawn, read or not", "n_candidates", "ceilings"),
    "n_groups_in_full": Statistic(
        np.int64, "groups of which all rows were read", "n_groups_in_full", "effects"
    ),
    "n_rows": Statistic(np.int64, "rows of evaluated groups", "n_rows", "nodes"),
    "n_at_nodes": Statistic(np.int64, "these rows times nodes", "n_at_nodes", "nodes"),
    "accept_border": _mean("acceptance of the border of elements", "accept_border", "effects"),
    "accept_elements": _mean("mean acceptance of elements", "accept_elements", "effects"),
    "accept_scales": _mean("acceptance of scales with elements", "accept_scales", "scales"),
    "accept_directions": _mean("acceptance along directions", "accept_directions", "directions"),
    "log_ratio": Statistic(np.float64, "estimated log ratio of the last update", "log_ratio"),
    "log_ratio_std": Statistic(np.float64, "its standard error", "log_ratio_std", "batches"),
    "error_estimate": _mean("estimated error of `accept`", "error", "batches"),
    "bound_ratio": Statistic(np.float64, "largest change over bound", "bound_ratio", "bounds"),
    "certified": Statistic(np.bool_, "whether the draw is exact by bounds of the model itself"),
    "invalid": Statistic(np.int64, "updates rejected as a log-density was not finite", "invalid"),
    "scaling": Statistic(np.float64, "scale of the random walk"),
    "temperature": Statistic(np.float64, "temperature K of the log-likelihood"),
    "perf_counter_diff": Statistic(np.float64, "seconds spent in the draw"),
}
