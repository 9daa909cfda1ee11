"""Noticing that a model's data changed after a step was built from them."""

from typing import Any

import numpy as np
import pymc as pm

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.errors import StaleDataError


class WatchedData:
    """The ``pm.Data`` of a model and what they held when a step was built.

    Parameters
    ----------
    model
        The model. Only its data variables are kept, and not even those in another process, where
        nobody can change them.
    """

    def __init__(self, model: pm.Model) -> None:
        self._variables = {str(variable.name): variable for variable in model.data_vars}
        self._fingerprints = self._read()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the data variables behind."""
        return {"_variables": {}, "_fingerprints": self._fingerprints}

    def require_unchanged(self, step: str) -> None:
        """Refuse data that changed, naming them and the step to build again."""
        for name, fingerprint in self._read().items():
            if fingerprint != self._fingerprints[name]:
                raise StaleDataError(
                    f"{name!r} changed after this step was built, so its mode and its sums over "
                    f"the rows are those of other data. Build {step}() again."
                )

    def _read(self) -> dict[str, str]:
        arrays = {
            name: np.atleast_1d(variable.get_value(borrow=True))
            for name, variable in self._variables.items()
        }
        return {name: Column(name, array, 0).fingerprint() for name, array in arrays.items()}
