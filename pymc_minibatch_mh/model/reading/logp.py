"""Log-densities as PyMC writes them, from the functions that a user gave among others."""

from collections.abc import Sequence
from typing import Any

import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import UnsplittableModelError

#: What PyTensor raises in a function that gives it an array of another kind than numbers.
_NOT_WRITTEN = (AttributeError, NotImplementedError, TypeError)


def log_density(model: pm.Model, vars: Sequence[Variable], *, summed: bool) -> Any:
    """Return the log-density of variables, summed or as one graph for each.

    Parameters
    ----------
    model
        A PyMC model.
    vars
        Variables and potentials of it.
    summed
        Whether to sum.

    Raises
    ------
    UnsplittableModelError
        If the function of a ``pm.CustomDist`` cannot be called, as where it computes with masked
        arrays; names the variable.
    """
    try:
        return model.logp(vars=list(vars), sum=summed)
    except _NOT_WRITTEN as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise UnsplittableModelError(
            f"{_culprit(model, vars)!r} has a log-density that PyMC cannot write ({said}). Correct "
            "its function; where that computes with a masked, big-endian or object array, give it "
            "np.asarray(x, dtype=float)."
        ) from error


def _culprit(model: pm.Model, vars: Sequence[Variable]) -> str:
    """Return the name of the first variable whose log-density cannot be written."""
    for variable in vars:
        try:
            model.logp(vars=[variable])
        except _NOT_WRITTEN:
            break
    return str(variable.name)
