"""Starting points that are spread wider than the posterior."""

import numpy as np

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.likelihood.given import generator_of
from pymc_minibatch_mh.steps import settings as check
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
        If an argument cannot be meant.
    """
    if not isinstance(step, MinibatchStep):
        raise SettingError(
            f"step={type(step).__name__} is no step method of this package. Pass the one that "
            "pm.sample() gets, such as a TunaMH()."
        )
    width = check.positive("scale", scale)
    rng = generator_of("seed", seed)
    return [step.gaussian_draw(rng, width) for _ in range(check.integer("chains", chains))]
