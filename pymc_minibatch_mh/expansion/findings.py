"""What a search for the mode that failed has found, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.errors import ModeError

WAY_ON = (
    "Give the variable a proper, informative prior, such as pm.HalfNormal() for the scale of a "
    "hierarchy, whichever way that is written; or sample with pm.NUTS()."
)
#: Coordinates that a message shows the values of.
SHOWN = 6


@dataclass(frozen=True)
class Names:
    """The names of the coordinates, and how a message shows a place.

    Parameters
    ----------
    all
        Name of each coordinate.
    """

    all: Sequence[str]

    def place(self, position: np.ndarray, first: int = 0) -> str:
        """Return the coordinates of a position in words, one of them first."""
        order = [first, *(k for k in range(position.size) if k != first)][:SHOWN]
        shown = ", ".join(f"{self.all[k]} = {position[k]:.4g}" for k in order)
        return shown + (", ..." if position.size > SHOWN else "")

    def end_of(self, k: int, step: float) -> str:
        """Return where a coordinate goes that moves on and on, as the model has it."""
        name = self.all[k]
        variable, log, index = name.partition("_log__")
        if log:
            return f"the scale {variable + index!r} goes to " + ("infinity" if step > 0 else "0")
        return "it goes to " + ("infinity" if step > 0 else "minus infinity")


def start_without_density() -> ModeError:
    """Refuse a start: a user's own, PyMC's, or the mean of a warm-up."""
    return ModeError(
        "The point from which the mode is searched for has a log-density that is not finite, so "
        "no way leads up from there. Pass initial_point= that the model allows, near the posterior."
    )


def not_finite(names: Names, position: np.ndarray, bad: np.ndarray) -> ModeError:
    """Tell of derivatives that stay without value, and where."""
    worst = int(np.argmax(bad))
    return ModeError(
        f"{names.all[worst]!r} has derivatives that are not finite at "
        f"{names.place(position, worst)}, the last point with a finite log-density, so no control "
        "variates can be built there. Pass initial_point= where the log-likelihood of all rows is "
        "smooth, or taylor_order=0."
    )


def runs_away(
    names: Names, k: int, path: Sequence[np.ndarray], values: Sequence[float]
) -> ModeError:
    """Tell of a coordinate that does not stop."""
    move, rise = path[-1][k] - path[0][k], values[-1] - values[0]
    return ModeError(
        f"{names.all[k]!r} runs away: {names.end_of(k, move)}, and the log-density still rises. In "
        f"the last {len(path) - 1} Newton steps it rose by {rise:.3g} from {path[0][k]:.4g} to "
        f"{path[-1][k]:.4g} without slowing down, so there is no mode that way. The last point is "
        f"{names.place(path[-1], k)}. {WAY_ON}"
    )


def scale_runs_away(names: Names, k: int, position: np.ndarray, move: float) -> ModeError:
    """Tell of a scale whose marginal density has no maximum."""
    return ModeError(
        f"{names.all[k]!r} runs away: {names.end_of(k, move)}, and its density still rises, with "
        "the coordinates that rows read integrated over as a Gaussian. The last point is "
        f"{names.place(position, k)}. {WAY_ON}"
    )


def unsettled(
    names: Names, steps: int, position: np.ndarray, step: np.ndarray, distance: float, k: int
) -> ModeError:
    """Tell of a search that took too many steps."""
    return ModeError(
        f"{names.all[k]!r} has not settled after {steps} Newton steps: the next would move it by "
        f"{step[k]:.3g}, and the mode is still {distance:.2g} standard deviations off by the "
        f"curvature at the last point, {names.place(position, k)}. Pass initial_point= nearer to "
        "the posterior. If the log-likelihood of rows has kinks, as that of a Laplace distribution "
        f"has, pass taylor_order=0. {WAY_ON}"
    )


def stuck(
    names: Names,
    position: np.ndarray,
    distance: float,
    k: int,
    kinks: Sequence[int],
    flattest: np.ndarray | None,
) -> ModeError:
    """Tell of a point from which the log-density does not rise."""
    why = "The prior has no kink nearby."
    if kinks:
        listed = ", ".join(repr(names.all[j]) for j in kinks)
        why = f"The prior has a kink in {listed} nearby, as an absolute value has."
    elif flattest is not None:
        why = f"It is not concave there, and flattest along {_leading(names, flattest)}."
    return ModeError(
        f"{names.all[k]!r} cannot be moved towards a mode: at {names.place(position, k)} the "
        "log-density does not rise along the Newton direction, although by its derivatives the "
        f"mode is {distance:.2g} standard deviations off. {why} {WAY_ON}"
    )


def flat(names: Names, weights: np.ndarray) -> ModeError:
    """Tell of a direction without curvature."""
    return ModeError(
        f"{_leading(names, weights)}: the log-posterior is flat or rises at its mode along "
        f"these together, so it has no Gaussian scale there. {WAY_ON}"
    )


def _leading(names: Names, weights: np.ndarray) -> str:
    worst = [names.all[k] for k in np.argsort(-weights)[:3] if weights[k] > 0.1]
    return ", ".join(map(repr, worst))
