"""What the noise-tolerant tests share: the head of their settings and the size of a batch.

Every settings array starts with the same slots, so that a step can write what it audits during
warm-up without knowing which test it runs.
"""

import math

from numba import float64, int64

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.errors import SettingError

#: Rows of the smallest batch, and of every further look of a sequential test.
BATCH_SIZE = 0
#: |skewness| of the differences, audited on full data; frozen after warm-up.
SKEWNESS = 1
#: E|X|^3 of the standardised differences, audited on full data; frozen after warm-up.
THIRD_MOMENT = 2
#: Number of these common slots.
COMMON_SLOTS = 3

#: E|X|^3 of a standard normal X, which stands in until an audit.
GAUSSIAN_THIRD_MOMENT = 2.0 * math.sqrt(2.0 / math.pi)

#: Share of the admissible variance that a batch aims at, so that few batches exceed it.
AIM = 0.7


@compiled(int64(float64, int64, float64))
def rows_for_variance(spread, total, variance):
    """Return the smallest b with spread * (1/b - 1/total) <= variance, or `total`."""
    if not spread < math.inf:
        return total
    return min(total, math.ceil(1.0 / (1.0 / total + variance / spread)))


def common_settings(batch_size: int, skewness: float, third_moment: float) -> list[float]:
    """Validate and pack the slots that every noise-tolerant test has.

    Parameters
    ----------
    batch_size
        Rows of the smallest batch, at least 2.
    skewness
        Audited |skewness| of the differences.
    third_moment
        Audited E|X|^3 of the standardised differences.

    Returns
    -------
    list of float
        The slots `BATCH_SIZE`, `SKEWNESS` and `THIRD_MOMENT`.

    Raises
    ------
    SettingError
        If one of them is out of range.
    """
    if int(batch_size) != batch_size or batch_size < 2:
        raise SettingError(
            f"batch_size={batch_size} gives no variance to judge a batch by. Use an integer of 2 "
            "or more."
        )
    require_positive("skewness", skewness, or_zero=True)
    require_positive("third_moment", third_moment)
    return [float(batch_size), float(skewness), float(third_moment)]


def require_positive(
    name: str, value: float, *, or_zero: bool = False, or_infinite: bool = False
) -> None:
    """Refuse a setting that is not a positive number.

    Parameters
    ----------
    name
        Keyword of the setting.
    value
        What was given.
    or_zero, or_infinite
        Whether 0 and infinity are allowed.

    Raises
    ------
    SettingError
        If `value` is out of range or not a number.
    """
    number = float(value)
    if (number > 0.0 or (or_zero and number == 0.0)) and (or_infinite or number < math.inf):
        return
    raise SettingError(
        f"{name}={value} is not a {'non-negative' if or_zero else 'positive'}"
        f"{'' if or_infinite else ', finite'} number. Pass one."
    )
