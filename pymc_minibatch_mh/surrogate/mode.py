"""The posterior mode, by damped Newton steps: on a subsample first, then on all rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.surrogate.passes import Derivatives, Passes

#: Rows of the subsample that finds the neighbourhood of the mode.
SUBSAMPLE = 20_000
#: Distance from the mode, in posterior standard deviations, at which the search ends.
TOLERANCE = 1e-3
#: The same for the subsample, whose mode is sqrt(N / rows) standard deviations off anyway.
COARSE_TOLERANCE = 0.1
MAX_STEPS = 60
#: A Hessian serves several steps, until one shrinks the distance by less than this factor.
SLOW = 0.3
#: Distance, in posterior standard deviations, from which slopes alone can tell a good step.
NEAR = 1.0
WAY_ON = (
    "Give the variable a proper, informative prior; where it is the scale of a hierarchy, use the "
    "parameterisation that suits the rows per group: centred for many, non-centred for few; or "
    "sample with pm.NUTS()."
)


@dataclass(frozen=True)
class Mode:
    """The mode and the sums of derivatives there.

    Parameters
    ----------
    position : ndarray, shape (d,)
    precision : ndarray, shape (d, d)
        A: minus the Hessian of the tempered log-posterior, positive definite.
    likelihood : Derivatives
        Of the untempered log-likelihood of all rows.
    """

    position: np.ndarray
    precision: np.ndarray
    likelihood: Derivatives


def find_mode(
    passes: Passes,
    start: np.ndarray,
    inverse_temperature: float,
    names: Sequence[str],
    rng: np.random.Generator,
) -> Mode:
    """Find the mode of the tempered posterior and the sums of derivatives there.

    Parameters
    ----------
    passes
        Passes over the rows.
    start : ndarray, shape (d,)
        A position with finite log-density.
    inverse_temperature
        β, which multiplies the log-likelihood.
    names
        Name of each coordinate, for messages.
    rng
        Draws the subsample.

    Raises
    ------
    ModeError
        If the log-posterior is flat or unbounded along some direction; names the parameters.
    """
    position = np.array(start, dtype=np.float64)
    if passes.n_rows > 4 * SUBSAMPLE:
        rows = np.sort(rng.choice(passes.n_rows, SUBSAMPLE, replace=False))
        weight = inverse_temperature * passes.n_rows / SUBSAMPLE
        coarse = _Target(passes, weight, rows)
        position = _climb(coarse, position, names, COARSE_TOLERANCE)
    target = _Target(passes, inverse_temperature, None)
    position = _climb(target, position, names, TOLERANCE)
    likelihood = passes.likelihood(position, hessian=True)
    prior = passes.prior(position, hessian=True)
    precision = -inverse_temperature * likelihood.hessian - prior.hessian
    _check_precision(precision, names)
    return Mode(position, precision, likelihood)


@dataclass
class _Target:
    passes: Passes
    weight: float
    rows: np.ndarray | None

    def __call__(self, theta: np.ndarray, hessian: bool) -> Derivatives:
        prior = self.passes.prior(theta, hessian=hessian)
        rows = self.passes.likelihood(theta, hessian=hessian, rows=self.rows)
        return Derivatives(
            prior.value + self.weight * rows.value,
            prior.gradient + self.weight * rows.gradient,
            prior.hessian + self.weight * rows.hessian,
        )


def _climb(
    target: Callable[[np.ndarray, bool], Derivatives],
    position: np.ndarray,
    names: Sequence[str],
    tolerance: float,
) -> np.ndarray:
    here = target(position, True)
    if not np.isfinite(here.value):
        raise ModeError(
            "initial_point= has a log-density that is not finite, so the search for the mode "
            "cannot start there. Pass a point that the model allows."
        )
    solve, scale = _newton_solver(here, names)
    last = np.inf
    for _ in range(MAX_STEPS):
        step = solve(here.gradient)
        distance = float(np.sqrt(max(step @ here.gradient, 0.0)))
        if distance < tolerance and not here.has_hessian:
            return position
        if not here.has_hessian and distance > SLOW * last:
            here = target(position, True)
            solve, scale = _newton_solver(here, names)
            last = np.inf
            continue
        if distance < tolerance:
            return position + step
        last = distance
        position, here = _line_search(target, position, here, step, distance, names)
    worst = names[int(np.argmax(np.abs(step) / np.maximum(scale, 1e-300)))]
    raise ModeError(
        f"{worst!r} runs away: {MAX_STEPS} Newton steps did not reach a mode, as with separated "
        f"classes, a flat direction or the boundary of a centred hierarchy. {WAY_ON}"
    )


def _line_search(
    target: Callable[[np.ndarray, bool], Derivatives],
    position: np.ndarray,
    here: Derivatives,
    step: np.ndarray,
    distance: float,
    names: Sequence[str],
) -> tuple[np.ndarray, Derivatives]:
    # Below this the change of the log-density drowns in the rounding of its sum.
    slack = 1e-9 * abs(here.value) + 1e-6
    length = 1.0
    for _ in range(40):
        there = target(position + length * step, False)
        finite = np.isfinite(there.value) and np.isfinite(there.gradient).all()
        rises = there.value >= here.value + 1e-4 * length * distance**2 - slack
        # Of large terms that cancel, as with counts of a billion, a value may be all rounding.
        flatter = distance < NEAR and abs(there.gradient @ step) <= 0.5 * distance**2
        if finite and (rises or flatter):
            return position + length * step, there
        length *= 0.5
    worst = names[int(np.argmax(np.abs(step)))]
    raise ModeError(
        f"{worst!r} cannot be moved towards a mode: the log-density does not rise along the "
        f"Newton direction, as at a kink or where it is not finite. {WAY_ON}"
    )


def _newton_solver(
    here: Derivatives, names: Sequence[str]
) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    curvature = -here.hessian
    if not np.isfinite(curvature).all() or not np.isfinite(here.gradient).all():
        bad = ~np.isfinite(curvature).all(axis=0) | ~np.isfinite(here.gradient)
        worst = names[int(np.argmax(bad))]
        raise ModeError(
            f"{worst!r} has derivatives that are not finite, so no control variates can be built "
            "here. Pass initial_point= inside the support, or use taylor_order=0 with a model "
            "whose log-likelihood is smooth there."
        )
    values, vectors = np.linalg.eigh(curvature)
    # Away from the mode the log-density need not be concave: climb along every eigenvector.
    floored = np.maximum(np.abs(values), 1e-10 * max(np.abs(values).max(), 1e-300))
    if values[0] > 1e-10 * values[-1]:
        factor = cho_factor(curvature)
        return lambda g: cho_solve(factor, g), 1.0 / np.sqrt(np.diag(curvature))
    scale = np.full(values.size, 1.0 / np.sqrt(floored.min()))
    return lambda g: vectors @ ((vectors.T @ g) / floored), scale


def _check_precision(precision: np.ndarray, names: Sequence[str]) -> None:
    scale = np.sqrt(np.maximum(np.abs(np.diag(precision)), 1e-300))
    values, vectors = np.linalg.eigh(precision / np.outer(scale, scale))
    if values[0] > 1e-12:
        return
    weights = np.abs(vectors[:, 0])
    worst = [names[k] for k in np.argsort(-weights)[:3] if weights[k] > 0.1]
    raise ModeError(
        f"{', '.join(map(repr, worst))}: the log-posterior is flat or rises at its mode along "
        f"these together, so it has no Gaussian scale there. {WAY_ON}"
    )
