"""Expanding line search for a point where a rising log-density falls again.

On an exponential tail, as for a category without events, Newton steps do not shrink until the prior
dominates, which may be far off. So a mode counts as missing only if the log-density
falls nowhere, up to the largest floating-point numbers.
"""

from collections.abc import Callable
from math import isfinite

#: Maximum doublings of the distance; halvings of an interval that contains a maximum; halvings
#: towards non-finite values, if no decrease is known yet.
MAX_DOUBLINGS, HALVINGS, HALVINGS_TO_END = 50, 5, 20
#: Minimum decrease of a log-density that exceeds rounding: relative to its size, plus absolute.
ROUNDING, MIN_FALL = 1e-9, 1e-6


def distance_to_maximum(along: Callable[[float], tuple[float, float]]) -> float | None:
    """Distance up to which a log-density rises along a line; None if it never falls.

    `along` gives value and slope at a distance. The result lies before the maximum, because
    Newton steps from beyond it may lead far back.
    """
    highest, slope = along(0.0)
    near, beyond, falls = 0.0, 1.0, False

    def has_fallen(value: float) -> bool:
        return value < highest - (ROUNDING * abs(highest) + MIN_FALL)

    for _ in range(MAX_DOUBLINGS):
        before, (value, slope) = slope, along(beyond)
        falls = isfinite(value + slope) and has_fallen(value)
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
        if isfinite(value + slope) and slope >= 0.0 and not has_fallen(value):
            highest, near = max(highest, value), middle
        else:
            beyond, falls = middle, falls or isfinite(value + slope)
    return near if falls else None
