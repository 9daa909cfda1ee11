"""Expanding line search for a point where a rising log-density falls again.

All Newton steps are alike on an exponential tail, as of a category without events or of a share
that is zero, and the prior bounds such a coordinate however far off. Hence only a log-density that
falls nowhere, out to the end of the numbers, has no mode that way.
"""

from collections.abc import Callable
from math import isfinite

#: Doublings of the distance, and halvings of the interval where the log-density turns.
MAX_DOUBLINGS, HALVINGS = 50, 5
#: Halvings towards the end of the numbers, where no fall has been seen before.
HALVINGS_TO_END = 20
#: Fall of a log-density, relative to its size and at least, that is more than rounding.
ROUNDING, LEAST_FALL = 1e-9, 1e-6


def distance_to_maximum(along: Callable[[float], tuple[float, float]]) -> float | None:
    """Distance up to which a log-density rises along a line; None if it never falls.

    `along` has value and slope at a distance, which need not be finite. The distance returned lies
    before the maximum, as Newton steps from beyond it may lead far back.
    """
    highest, slope = along(0.0)
    near, beyond, falls = 0.0, 1.0, False

    def fallen(value: float) -> bool:
        return value < highest - (ROUNDING * abs(highest) + LEAST_FALL)

    for _ in range(MAX_DOUBLINGS):
        before, (value, slope) = slope, along(beyond)
        falls = isfinite(value + slope) and fallen(value)
        if falls or not isfinite(value + slope):
            break
        if slope == before == 0.0:
            return None
        highest, near = max(highest, value), beyond if slope > 0.0 else near
        beyond *= 2.0
    else:
        return None
    for _ in range(HALVINGS if falls else HALVINGS_TO_END):
        middle = 0.5 * (near + beyond)
        value, slope = along(middle)
        if isfinite(value + slope) and slope >= 0.0 and not fallen(value):
            highest, near = max(highest, value), middle
        else:
            beyond, falls = middle, falls or isfinite(value + slope)
    return near if falls else None
