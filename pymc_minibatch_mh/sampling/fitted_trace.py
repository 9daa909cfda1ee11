"""Traces of Bambi models in the form of Bambi's ``fit``."""

import xarray as xr

from pymc_minibatch_mh.model.bambi import BambiModel, clean_trace, response_parameters


def bambi_trace(model: BambiModel, data: xr.DataTree) -> xr.DataTree:
    """Convert a trace of the PyMC model behind a Bambi model to the result of Bambi's ``fit``.

    Bambi's code drops the offsets of group effects, and moves intercepts to predictors that are not
    centred. Parameters of the likelihood with one value per observation, such as ``mu``, are left
    out as ``fit`` leaves them out; ``model.predict(data)`` computes them.

    Parameters
    ----------
    model
        The ``bambi.Model``, built.
    data
        Trace of its PyMC model, with all free variables; it stays as it is.
    """
    left_out = response_parameters(model)
    groups = {name: group.to_dataset() for name, group in data.children.items()}
    for name in groups.keys() & {"posterior", "warmup_posterior"}:
        # Variables are dropped by name, so that unused coordinates disappear as well.
        groups[name] = groups[name][[x for x in groups[name].data_vars if x not in left_out]]
    # Bambi's summary of a fitted model mentions how to inspect the trace.
    model.backend.fit = True
    return clean_trace(model.backend, xr.DataTree.from_dict(groups))
