"""Messages about models without a mode, and about searches that do not converge."""

from collections.abc import Sequence

import numpy as np

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.reference.density import Point

#: Advice at the end of most messages.
WAY_ON = (
    "Give the variable a proper, informative prior, such as pm.HalfNormal() for the scale of a "
    "hierarchy, or sample with pm.NUTS()."
)
#: Possible causes of the divergence of a coordinate.
FLAT_PRIOR = (
    "Its prior is flat in that direction, and the data may not bound it either, for example "
    "because a category has no event or a predictor separates the outcomes. "
)
EXACT_FIT = "Perhaps the model fits the data exactly. "
#: Maximum number of coordinates whose values a message shows.
SHOWN = 6


def _show_point(names: Sequence[str], position: np.ndarray, first: int = 0) -> str:
    """Text with the coordinates of a position, beginning with coordinate `first`."""
    order = [first, *(k for k in range(position.size) if k != first)][:SHOWN]
    shown = ", ".join(f"{names[k]} = {position[k]:.4g}" for k in order)
    return shown + (", ..." if position.size > SHOWN else "")


def _end_of(name: str, step: float) -> str:
    """Text about the limit of a diverging coordinate, in terms of the model's variable."""
    variable, log, index = name.partition("_log__")
    if log:
        return f"the scale {variable + index!r} goes to " + ("infinity" if step > 0 else "0")
    return "it goes to " + ("infinity" if step > 0 else "minus infinity")


def start_without_density() -> ModeError:
    """Error about a start whose log-density is not finite."""
    return ModeError(
        "The search for the mode starts at a point whose log-density is not finite. Pass an "
        "initial_point= that the model allows, near the posterior."
    )


def not_finite(
    names: Sequence[str], position: np.ndarray, bad: np.ndarray, where: str = ""
) -> ModeError:
    """Error about derivatives that are not finite, with position and row."""
    worst = int(np.argmax(bad))
    place = _show_point(names, position, worst)
    return ModeError(
        f"{names[worst]!r} has derivatives that are not finite {where + ', ' if where else ''}at "
        f"{place}, the last point with a finite log-density, so no control variates can be built "
        "there. Pass an initial_point= where the log-likelihood of all observations is smooth, "
        "or taylor_order=0."
    )


def scale_collapses(
    names: Sequence[str], k: int, way: tuple[Point, Point], *, settled: bool, flat: bool
) -> ModeError:
    """Error about a coordinate that diverges from the first to the second point of `way`.

    If `settled`, the log-density decreases nowhere beyond; otherwise no step reached a decrease.
    `flat` says whether the prior has slope 0 there.
    """
    first, last = (point.position[k] for point in way)
    rise = way[1].total.value - way[0].total.value
    beyond = (
        "it decreases nowhere beyond" if settled else "no step reached a point where it decreases"
    )
    guess = FLAT_PRIOR if flat else EXACT_FIT if last < first and "_log__" in names[k] else ""
    return ModeError(
        f"{names[k]!r} runs away: {_end_of(names[k], last - first)}, and the log-density still "
        f"rises. In the last Newton steps it rose by {rise:.3g} from {first:.4g} to {last:.4g} "
        f"without slowing down, and {beyond}, so there is no mode in that direction. {guess}The "
        f"last point is {_show_point(names, way[1].position, k)}. {WAY_ON}"
    )


def scale_runs_away(names: Sequence[str], k: int, position: np.ndarray, move: float) -> ModeError:
    """Error about a scale whose marginal density has no maximum."""
    return ModeError(
        f"{names[k]!r} runs away: {_end_of(names[k], move)}, and its marginal density still "
        "rises, where a Gaussian approximation integrates out the coordinates of the likelihood. "
        f"The last point is {_show_point(names, position, k)}. {WAY_ON}"
    )


def scales_are_local(names: Sequence[str], local: Sequence[int]) -> ModeError:
    """Error about coefficients with one scale each."""
    variable = names[local[0]].partition("[")[0].removesuffix("_log__")
    return ModeError(
        f"{variable!r} has {len(local)} scales of one coefficient each, as in a horseshoe. Data do "
        "not tell such a scale from 0, so no normal distribution is near the posterior. Give the "
        "coefficients one common scale and heavy tails, such as pm.StudentT(nu=3, sigma=tau) or "
        "pm.Laplace(b=tau), or sample with pm.NUTS()."
    )


def not_settled(
    names: Sequence[str], k: int, steps: int, position: np.ndarray, move: float, distance: float
) -> ModeError:
    """Error about a search that has not converged after `steps` steps."""
    return ModeError(
        f"{names[k]!r} has not converged after {steps} Newton steps: the next step would change "
        f"it by {move:.3g}, and the mode is still {distance:.2g} standard deviations away from "
        f"the last point, {_show_point(names, position, k)}. Pass an initial_point= nearer to the "
        "posterior. If the log-likelihood has kinks, for example that of a Laplace distribution, "
        f"pass taylor_order=0. {WAY_ON}"
    )


def not_rising(
    names: Sequence[str],
    position: np.ndarray,
    distance: float,
    k: int,
    kinks: Sequence[int],
    flattest: np.ndarray | None,
) -> ModeError:
    """Error about a point from which the log-density does not rise in the Newton direction."""
    why = "The prior has no kink nearby."
    if kinks:
        listed = ", ".join(repr(names[j]) for j in kinks)
        why = f"The prior has a kink in {listed} nearby, such as an absolute value."
    elif flattest is not None:
        why = f"It is not concave there, and flattest along {_leading_names(names, flattest)}."
    return ModeError(
        f"{names[k]!r} is stuck on the way to a mode: at {_show_point(names, position, k)} the "
        "log-density does not rise along the Newton direction, although its derivatives put the "
        f"mode {distance:.2g} standard deviations away. {why} {WAY_ON}"
    )


def density_flat(names: Sequence[str], weights: np.ndarray) -> ModeError:
    """Error about a direction without downward curvature."""
    worst = _leading_names(names, weights)
    return ModeError(
        f"{worst}: data and priors do not determine {'them' if ', ' in worst else 'it'}, because "
        f"the log-posterior is flat or rises in that direction at its mode. {WAY_ON}"
    )


def _leading_names(names: Sequence[str], weights: np.ndarray) -> str:
    worst = [names[k] for k in np.argsort(-weights)[:3] if weights[k] > 0.1]
    return ", ".join(map(repr, worst))
