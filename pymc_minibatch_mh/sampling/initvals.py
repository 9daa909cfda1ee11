"""Starting points that are spread wider than the posterior."""

import numpy as np
import pytensor

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.reading.derived import IN_PYTHON
from pymc_minibatch_mh.model.reading.dims import has_dims
from pymc_minibatch_mh.model.reading.inputs import generator_of
from pymc_minibatch_mh.model.reading.split import Split
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.given import step_of


def overdispersed_initvals(
    step: MinibatchStep, chains: int, scale: float = 2.0, seed: int | None = None
) -> list[dict[str, np.ndarray]]:
    """Draw a starting point for each chain from a widened Gaussian approximation.

    PyMC starts all chains of a step that the user built at one point, which makes R-hat
    optimistic. Starting points are drawn on the unconstrained scale, and given on the model's
    own, as ``pm.sample(initvals=...)`` takes them for every transform.

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
        One dictionary per chain: name of the variable -> array.

    Raises
    ------
    SettingError
        If an argument is invalid, or if a variable has values along the dims of pymc.dims:
        PyMC takes no starting values of those.
    """
    step = step_of(step)
    width = check.positive("scale", scale)
    rng = generator_of("seed", seed)
    count = check.integer("chains", chains)
    split = step.target.split
    _require_arrays(split)
    free = pytensor.function(
        [split.position, split.other_values],
        list(split.natural.values()),
        mode=IN_PYTHON,
        on_unused_input="ignore",
    )
    points = [split.ravel(step.gaussian_draw(rng, width)) for _ in range(count)]
    others = step.target.source.others
    return [dict(zip(split.natural, free(point, others), strict=True)) for point in points]


def _require_arrays(split: Split) -> None:
    for name, block in zip(split.natural, split.blocks, strict=True):
        if has_dims(block.variable) and block.shape:
            raise SettingError(
                f"{name!r} has values along the dims of pymc.dims, and PyMC takes no starting "
                "values of such variables. Leave out initvals=."
            )
