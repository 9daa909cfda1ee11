"""Starting points that are spread wider than the posterior."""

import numpy as np

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.steps.base import MinibatchStep


def overdispersed_initvals(
    step: MinibatchStep, chains: int, scale: float = 2.0, seed: int | None = None
) -> list[dict[str, np.ndarray]]:
    """Draw a starting point for each chain from a widened Gaussian approximation.

    PyMC starts all chains of a step that the user built at one point, which makes R-hat
    optimistic. Starting points are on the unconstrained scale, under the names of the value
    variables, as ``pm.sample(initvals=...)`` accepts them.

    Parameters
    ----------
    step
        A step method of this package.
    chains
        Number of starting points.
    scale
        Standard deviation of the starting points in posterior standard deviations.
    seed
        Seed of the starting points.

    Returns
    -------
    list of dict
        One dictionary per chain: name of the value variable -> array.

    Raises
    ------
    SettingError
        If `scale` is not a positive number.
    """
    if not (np.isfinite(scale) and scale > 0.0):
        raise SettingError(f"scale={scale!r} is not a positive number. Give a number above 0.")
    rng = np.random.default_rng(seed)
    return [step.gaussian_draw(rng, scale) for _ in range(chains)]
