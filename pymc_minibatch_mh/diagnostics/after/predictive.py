"""Posterior predictive draws of chosen rows."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from numpy.random import Generator
from pymc.distributions.distribution import PartialObservedRV, SymbolicRandomVariable
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import walk as visit
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type_other import NoneTypeT

from pymc_minibatch_mh.diagnostics.after.chosen_rows import (
    BatchFunction,
    observed_variable,
    of_chosen_rows,
    posterior_draws,
    row_numbers,
    stand_ins,
)
from pymc_minibatch_mh.errors import UnsplittableModelError
from pymc_minibatch_mh.model.reading.axis import MixedRowsError
from pymc_minibatch_mh.model.reading.batch import BatchWalk
from pymc_minibatch_mh.model.reading.inputs import generator_of, model_of
from pymc_minibatch_mh.model.reading.stored_operations import stored_arrays

#: Where random variables are defined that follow NumPy's rules of batches. One that calls a
#: function of the user, as a CustomDist(random=...), is defined elsewhere.
KNOWN = ("pytensor.tensor.random.", "pymc.distributions.")


def posterior_predictive(
    trace: xr.DataTree,
    rows: Sequence[int] | np.ndarray,
    *,
    model: pm.Model | None = None,
    var_name: str | None = None,
    random_seed: Any = None,
) -> xr.DataArray:
    """Draw chosen rows of an observed variable anew, one set of them per draw of the posterior.

    The variable's random graph is rebuilt for a batch of rows: neither other rows nor their
    parameters are computed, and memory is that of the result. The rows are those that the model
    holds now: after :func:`pymc.set_data`, new ones.

    Parameters
    ----------
    trace
        What :func:`pymc.sample` returned.
    rows
        Row numbers, from 0, in any order.
    model
        The model; by default that of the context.
    var_name
        Name of the observed variable; by default the only one.
    random_seed
        Seed of the draws.

    Returns
    -------
    DataArray
        Draws with dimensions ``chain``, ``draw`` and those of the variable, the first one labelled
        by the model's coordinates, or else by row numbers.

    Raises
    ------
    UnsplittableModelError
        If the draws of rows cannot be proven to be independent given the parameters.
    SettingError
        If `rows`, `var_name` or `trace` do not fit the model.
    """
    model = model_of(model)
    generator = generator_of("random_seed", random_seed)
    rv = observed_variable(model, var_name)
    name = str(rv.name)
    given = stand_ins(model)
    names = {v: str(v.name) for v in given.values()}
    walk = PredictiveWalk(name, _number_of_rows(model, rv), names)
    (graph,) = clone_replace([rv], given, rebuild_strict=False)
    batch = _batch_of_draws(walk, graph)
    chosen = row_numbers(rows, walk.n_rows, name)
    draw = BatchFunction(
        {names[v]: v for v in names},
        batch,
        walk.length,
        list(walk.batches.values()),
        int(generator.integers(2**63)) if isinstance(random_seed, Generator) else random_seed,
    )
    values = draw.at_draws(posterior_draws(trace, model), chosen)
    return of_chosen_rows(values, chosen, trace, model, name)


class PredictiveWalk(BatchWalk):
    """Walk a random graph backwards, carrying the observation axis through its random variables.

    Values of a random variable are independent along all axes but those of one draw: rows of the
    draws depend on the same rows of the parameters. In a log-likelihood no random variable is
    left, so that only this walk has a rule for them.
    """

    def __init__(self, name: str, n_rows: int, names: dict[Variable, str]) -> None:
        super().__init__(name, n_rows, names)
        self._by_rows: Counter[Apply] = Counter()

    def require_single_draws(self) -> None:
        """Refuse graphs that use the draws of a random variable by rows and in another way."""
        shared = visit(self.shared_by_all, what_enters_the_values)
        others = {v.owner for v in shared if v.owner is not None}
        twice = [node for node, count in self._by_rows.items() if count > 1 or node in others]
        if twice:
            raise MixedRowsError(twice[0].op, f"all rows of {twice[0].op} enter each of them")

    def _build(self, variable: Variable, axis: int) -> Variable:
        op = variable.owner.op if variable.owner is not None else None
        if isinstance(op, RandomVariable | SymbolicRandomVariable):
            self._by_rows[variable.owner] += 1
        if isinstance(op, RandomVariable):
            if not type(op).__module__.startswith(KNOWN):
                raise MixedRowsError(op, f"{op} is not known to draw its rows independently")
            return self._draws(variable.owner, axis)
        if isinstance(op, SymbolicRandomVariable):
            place = variable.owner.outputs.index(variable)
            opened = op.fgraph.bind(variable.owner.inputs)
            return self.rows(opened[place], axis)
        if isinstance(op, ViewOp):
            return self.rows(variable.owner.inputs[0], axis)
        return super()._build(variable, axis)

    def _draws(self, node: Apply, axis: int) -> Variable:
        op = node.op
        _, size, *parameters = node.inputs
        n_batch = node.outputs[1].type.ndim - op.ndim_supp
        if axis >= n_batch:
            raise MixedRowsError(op, f"{op} draws all of its values together")
        batches = []
        for parameter, n_core in zip(parameters, op.ndims_params, strict=True):
            own = axis - n_batch + (parameter.type.ndim - n_core)
            shared = own < 0 or parameter.type.broadcastable[own]
            batches.append(self.whole(parameter) if shared else self.rows(parameter, own))
        lengths = None
        if not isinstance(size.type, NoneTypeT):
            lengths = [self.length if k == axis else size[k] for k in range(n_batch)]
        rng = pytensor.shared(np.random.default_rng())
        return op.make_node(rng, lengths, *batches).outputs[1]


def _batch_of_draws(walk: PredictiveWalk, graph: Variable) -> Variable:
    if isinstance(graph.owner.op, PartialObservedRV):
        raise _refused(walk.name, "it has missing values that PyMC imputes")
    if graph.type.ndim == 0:
        raise _refused(walk.name, "it has a single value")
    try:
        batch = walk.rows(graph, 0)
        walk.require_single_draws()
    except MixedRowsError as error:
        raise _refused(walk.name, error.why) from error
    except UnsplittableModelError as error:
        raise _refused(walk.name, str(error)) from error
    return batch


def what_enters_the_values(variable: Variable) -> Sequence[Variable]:
    """Return the inputs of the operation behind a variable, unless it only asks for their shape."""
    if variable.owner is None or isinstance(variable.owner.op, Shape | Shape_i):
        return ()
    return list(variable.owner.inputs)


def _refused(name: str, cause: str) -> UnsplittableModelError:
    return UnsplittableModelError(
        f"{name!r}: some of its rows cannot be drawn without the others ({cause}). Use "
        "pm.sample_posterior_predictive(), which draws all rows, with as few draws of the "
        "posterior as memory allows."
    )


def _number_of_rows(model: pm.Model, rv: Variable) -> int:
    value = model.rvs_to_values[rv]
    stored = stored_arrays([value])
    if stored:
        return int(stored[0].shape[0])
    return int(value.type.shape[0] or value.shape[0].eval()) if value.type.ndim else 1
