"""The bias of posterior moments that errors of the acceptance probability amount to.

Let P̃ be the update as it runs, stationary for π̃, and P the same update with an acceptance
probability a + a balancing error taken off, stationary for the posterior π. With g the solution of
Poisson's equation g - P g = f - π(f),

    π̃(f) - π(f) = π̃(P̃ - P) g = E[(ã - a)(θ, θ') (g(θ') - g(θ))],    θ ~ π̃, θ' ~ q(θ, ·):

an identity, and the draws of the trace are distributed as π̃. Of g, the part along f counts: its
coefficient is Σ_j ρ_j over the autocorrelations of f from lag 0 on, in updates. For a draw every k
updates, of which the trace tells τ = 1 + 2 Σ_j ρ_(jk), and ρ between draws as within the first one,

    Σ_j ρ_j = (1 + τ)/2 · (1 - ρ^k)/(1 - ρ),    1 - ρ = E[ã (f(θ') - f(θ))²] / (2 Var f),

which is 1/(1 - ρ) where the autocorrelations are geometric. Moves without rows between the updates
leave π as it is, so that P and P̃ differ in the test alone with them as without. They make g smaller
in what they move, which is not counted: an estimate is too large rather than too small there.
"""

from typing import NamedTuple

import arviz as az
import numpy as np
import xarray as xr
from scipy.special import ndtri, stdtr

from pymc_minibatch_mh.diagnostics.audit.measure import Measured

#: Moments whose bias is estimated, in standard deviations of the draws.
MOMENTS = ("mean", "sd")
#: Least distance of ρ from 1, and probability that has a quantile.
LEAST_GAP, LEAST_TAIL = 1e-9, 1e-300


class Bias(NamedTuple):
    """Estimates, each of shape (moment, coordinate).

    Parameters
    ----------
    estimate, mcse
        Bias in standard deviations of the draws, and its Monte Carlo standard error. That of the
        standard deviation itself is half the relative bias of the variance.
    bound
        The same with the absolute value of every pair's contribution, Monte Carlo noise included.
    drift
        Mean change of the moment in an update, in units of its standard error: about standard
        normal, if draws are what the update leaves them. Of few effective pairs it is Student's t,
        in the normal quantile of the same probability.
    autocorrelation_time
        Integrated autocorrelation time between draws.
    """

    estimate: np.ndarray
    mcse: np.ndarray
    bound: np.ndarray
    drift: np.ndarray
    autocorrelation_time: np.ndarray


def bias_of(draws: np.ndarray, measured: Measured, first: int, updates_per_draw: int) -> Bias:
    """Estimate the bias of mean and standard deviation of every coordinate that a step moves.

    Parameters
    ----------
    draws : ndarray, shape (chain, draw, d)
        All draws of the position.
    measured
        The moves; those that ended in a violated bound are left out.
    first
        First coordinate that the step moves.
    updates_per_draw
        Updates between two draws, k.
    """
    own = draws[..., first:]
    centre, scale = own.mean(axis=(0, 1)), own.std(axis=(0, 1))
    usable = np.isfinite(measured.error)

    def moments(positions: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (positions[..., first:] - centre) / scale
        # Half of the square: a change of the variance in units of twice itself.
        return np.stack([z, 0.5 * z * z], axis=-2)

    change = moments(measured.new[usable]) - moments(measured.position[usable])
    values = moments(draws)
    error = measured.error[usable, None, None]
    accept = measured.there["mean"][usable, None, None]
    n_draws = draws.shape[0] * draws.shape[1]
    effective = _effective_draws(values)
    time = n_draws / effective
    gap = np.clip(
        np.mean(accept * change**2, axis=0) / (2.0 * values.var(axis=(0, 1))), LEAST_GAP, 2.0
    )
    within = (1.0 - (1.0 - gap) ** updates_per_draw) / gap
    factor = 0.5 * (1.0 + time) * within
    # Pairs from dependent draws say less than their number.
    count = np.minimum(usable.sum(), effective)
    drift = accept * change
    return Bias(
        factor * np.mean(error * change, axis=0),
        factor * np.std(error * change, axis=0) / np.sqrt(count),
        factor * np.mean(np.abs(error * change), axis=0),
        as_normal(np.mean(drift, axis=0) / (np.std(drift, axis=0) / np.sqrt(count)), count - 1.0),
        time,
    )


def as_normal(t: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    """Return the normal quantiles of the probabilities of Student's t."""
    tail = np.maximum(stdtr(np.maximum(freedom, 1.0), -np.abs(t)), LEAST_TAIL)
    return np.copysign(ndtri(tail), t)


def _effective_draws(values: np.ndarray) -> np.ndarray:
    array = xr.DataArray(values, dims=("chain", "draw", "moment", "coordinate"))
    return az.ess(array, method="mean").to_numpy()
