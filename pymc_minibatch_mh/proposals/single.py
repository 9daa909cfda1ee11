"""Laplace moves on their own."""

import numpy as np

from pymc_minibatch_mh.proposals.mixture import LAPLACE_RHO, Mixture


def Laplace(rho: float | tuple[float, ...] = LAPLACE_RHO) -> Mixture:  # noqa: N802
    """Return Laplace (preconditioned Crank–Nicolson) moves θ' = θ̂ + ρ(θ - θ̂) + √(1-ρ²) L ξ.

    Parameters
    ----------
    rho
        One autoregressive coefficient in (-1, 1), or several with equal weights. A posterior with
        tails
        heavier than its Gaussian approximation needs a random walk as well: see
        :class:`Mixture`.

    Examples
    --------
    >>> Laplace(rho=(0.0,)).n_components
    1
    """
    single = isinstance(rho, int | float | np.floating)
    return Mixture(rho=(rho,) if single else rho, walk_weight=0.0, by_scales=False)  # type: ignore[arg-type]
