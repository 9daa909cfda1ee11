"""Statistics of draws: counts of the updates, by the field names of the library's records."""

from typing import Literal, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import dtype_of

#: Counts of the updates of a draw.
COUNTS = dtype_of("mh_counts")
#: Efficiency of a component of a proposal, and of a move type of effects.
TALLY, KIND_TALLY = dtype_of("mh_tally"), dtype_of("mh_kind_tally")


def numbers(records: np.ndarray) -> np.ndarray:
    """View of contiguous records as numbers, in the same memory.

    The shape is that of the records, with one more axis, for their fields.
    """
    return records.reshape(-1).view(np.float64).reshape(*records.shape, records.itemsize // 8)


def summed(records: np.ndarray) -> np.void:
    """Sum of records, as one record."""
    return numbers(records).sum(axis=0).view(records.dtype)[0]


#: Features of some steps, without which a statistic would be zero in every draw.
type Feature = Literal[
    "batches", "bounds", "bright rows", "ceilings", "slices", "effects", "scales", "directions"
]


class Statistic(NamedTuple):
    """A statistic of a draw: type, meaning, and its entry of the counts if it has one.

    Averages are divided by the number of updates. Traces include it if the step has what it
    `needs`.
    """

    dtype: type
    meaning: str
    entry: str | None = None
    needs: Feature | None = None
    averaged: bool = False


#: All are scalars per draw. A name that PyMC's steps use has the same type, so that both can sample
#: one model. `accepted` is boolean in some PyMC steps and not in others, so no step here uses that
#: name.
STATS = {
    "accept": Statistic(np.float64, "estimated acceptance probability", "accept", averaged=True),
    "accepted_share": Statistic(np.float64, "share of accepted updates", "accepted", averaged=True),
    "n_obs": Statistic(np.int64, "evaluations of rows, each of them counted", "n_obs"),
    "n_looks": Statistic(np.int64, "looks that the test took", "n_looks", "batches"),
    "full_pass": Statistic(np.int64, "updates that read all rows", "full_pass"),
    "n_bright": Statistic(np.int64, "bright rows in the last update", "n_bright", "bright rows"),
    "n_prior": Statistic(np.int64, "evaluations of the prior by slice moves", "n_prior", "slices"),
    "n_candidates": Statistic(np.int64, "rows drawn, read or not", "n_candidates", "ceilings"),
    "n_groups_in_full": Statistic(
        np.int64, "groups of which all rows were read", "n_groups_in_full", "effects"
    ),
    "accept_border": Statistic(
        np.float64,
        "acceptance of the border of elements",
        "accept_border",
        "effects",
        averaged=True,
    ),
    "accept_elements": Statistic(
        np.float64, "mean acceptance of elements", "accept_elements", "effects", averaged=True
    ),
    "accept_scales": Statistic(
        np.float64, "acceptance of scales with elements", "accept_scales", "scales", averaged=True
    ),
    "accept_directions": Statistic(
        np.float64, "acceptance along directions", "accept_directions", "directions", averaged=True
    ),
    "log_ratio": Statistic(np.float64, "estimated log ratio of the last update", "log_ratio"),
    "log_ratio_std": Statistic(np.float64, "its standard error", "log_ratio_std", "batches"),
    "error_estimate": Statistic(
        np.float64, "estimated error of `accept`", "error", "batches", averaged=True
    ),
    "bound_ratio": Statistic(np.float64, "largest change over bound", "bound_ratio", "bounds"),
    "certified": Statistic(np.bool_, "whether the draw is exact by bounds of the model itself"),
    "invalid": Statistic(np.int64, "updates rejected as a log-density was not finite", "invalid"),
    "scaling": Statistic(np.float64, "scale of the random walk"),
    "temperature": Statistic(np.float64, "temperature K of the log-likelihood"),
    "perf_counter_diff": Statistic(np.float64, "seconds spent in the draw"),
}
