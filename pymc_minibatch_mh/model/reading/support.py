"""Where coordinates of the position can lie: the supports of variables that are not transformed."""

import numpy as np
import pymc as pm
from pymc.distributions.transforms import _default_transform
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor import as_tensor


def support(model: pm.Model, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of what a value variable can be, infinite where none is known.

    A transformed variable has the whole line for its value variable. One that is not, such as
    ``pm.Uniform("x", -3, 3, default_transform=None)``, keeps its support.
    """
    lower, upper = np.asarray(-np.inf), np.asarray(np.inf)
    rv = model.values_to_rvs[variable]
    if model.rvs_to_transforms[rv] is not None:
        return lower, upper
    transform = _default_transform(rv.owner.op, rv)
    if isinstance(transform, LogTransform):
        return np.asarray(0.0), upper
    if isinstance(transform, LogOddsTransform):
        return np.asarray(0.0), np.asarray(1.0)
    if not isinstance(transform, IntervalTransform):
        return lower, upper
    low, high = transform.args_fn(*rv.owner.inputs)
    return _number(low, lower), _number(high, upper)


def _number(end: Variable | None, unknown: np.ndarray) -> np.ndarray:
    # An end that is random itself, or that can be set anew, bounds nothing.
    if end is None or any(
        v.owner is None and not isinstance(v, Constant) for v in ancestors([as_tensor(end)])
    ):
        return unknown
    (value,) = constant_fold([as_tensor(end)])
    return np.asarray(value, dtype=np.float64)
