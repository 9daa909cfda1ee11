"""Log-likelihoods by formula, as passes that a mode is searched with."""

from types import SimpleNamespace

import numpy as np
from scipy.special import expit, log_expit

from pymc_minibatch_mh.reference.full_data import Derivatives


def logistic_rows(X, y, theta, order):
    """Value, gradient and Hessian of each row up to `order`."""
    eta, p = X @ theta, expit(X @ theta)
    parts = [log_expit(np.where(y, eta, -eta)), (y - p)[:, None] * X]
    parts.append(-(p * (1 - p))[:, None, None] * X[:, :, None] * X[:, None, :])
    return parts[: order + 1]


def derivatives(value, gradient, curvature, *, hessian):
    """Leave the Hessian empty unless it is asked for, as compiled passes do."""
    return Derivatives(float(value), gradient, curvature if hessian else curvature[:0])


def quadratic(mean, precision, theta, *, hessian):
    gap = theta - mean
    return derivatives(-0.5 * gap @ precision @ gap, -precision @ gap, -precision, hessian=hessian)


def averaged_skewness(likelihood, theta, factor, rows):
    """How much the average gradient over a Gaussian differs from that in its middle."""

    def gradient(place):
        return likelihood(place, hessian=False, rows=rows).gradient

    around = [0.5 * (gradient(theta + c) + gradient(theta - c)) for c in factor.T]
    return np.sum(around, axis=0) - len(factor) * gradient(theta)


def passes_of(likelihood, prior, n_rows=2_000, **more):
    """Return functions as passes over rows and prior."""
    return SimpleNamespace(
        n_rows=n_rows, cheap_hessian=False, logs=np.arange(0), likelihood=likelihood, prior=prior,
        undefined_at=lambda theta: "in row 3 of 'y'",
        **more,
    )  # fmt: skip


def logistic_passes(X, y, prior_precision):
    """Passes over a logistic regression with independent normal priors; precision 0 is flat."""

    def likelihood(theta, *, hessian, rows=None):
        chosen = slice(None) if rows is None else rows
        parts = [part.sum(axis=0) for part in logistic_rows(X[chosen], y[chosen], theta, 2)]
        return derivatives(*parts, hessian=hessian)

    def prior(theta, *, hessian):
        return quadratic(0.0, np.diag(prior_precision), theta, hessian=hessian)

    def skewness(theta, factor, rows):
        return averaged_skewness(likelihood, theta, factor, rows)

    return passes_of(
        likelihood,
        prior,
        n_rows=len(y),
        skewness=skewness,
        skewness_of_prior=lambda theta, factor: np.zeros(theta.size),
    )


def hierarchy_passes(means, weight):
    """Centred group effects with a flat prior on the logarithm of their scale, and few data."""
    size = len(means) + 1

    def likelihood(theta, *, hessian, rows=None):
        precision = np.diag(np.r_[0.0, np.full(len(means), weight)])
        return quadratic(np.r_[0.0, means], precision, theta, hessian=hessian)

    # Far out on the way to the boundary this overflows, and Newton has to shorten its step.
    @np.errstate(all="ignore")
    def prior(theta, *, hessian):
        effects, shrink = theta[1:], np.exp(-2 * theta[0])
        squares = effects @ effects * shrink
        gradient = np.r_[squares - len(means), -effects * shrink]
        curvature = np.diag(np.full(size, -shrink))
        curvature[0, :] = curvature[:, 0] = np.r_[-2 * squares, 2 * effects * shrink]
        value = -len(means) * theta[0] - 0.5 * squares
        return derivatives(value, gradient, curvature, hessian=hessian)

    return passes_of(likelihood, prior, n_rows=1_000)
