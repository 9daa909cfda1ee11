"""Free variables on the scale of the model, from the value variables that steps move."""

from collections.abc import Sequence

import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.model.reading.dims import plain


def natural(model: pm.Model, values: Sequence[Variable]) -> dict[str, Variable]:
    """Return the free variables of value variables by name, in terms of all value variables.

    Parameters of a distribution can be part of its transform, as the ends of
    ``pm.Uniform("u", a, a + 2)`` are, so that other value variables may be among these terms.
    """
    free = {}
    for value in values:
        rv = model.values_to_rvs[value]
        transform = model.rvs_to_transforms[rv]
        known = value if transform is None else transform.backward(value, *rv.owner.inputs)
        free[str(rv.name)] = known
    by_values = model.replace_rvs_by_values(list(free.values()))
    return dict(zip(free, map(plain, by_values), strict=True))
