"""Rewriting of the log-likelihood of all observations for a minibatch."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.graph.traversal import walk as visit
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.xtensor.basic import TensorFromXTensor, XTensorFromTensor
from scipy.sparse import issparse

import pymc_minibatch_mh.model.reshapes
import pymc_minibatch_mh.model.sparse_products  # noqa: F401 - registers rules
from pymc_minibatch_mh.data import Column, dtype_in_batch
from pymc_minibatch_mh.data.source import StoredArray
from pymc_minibatch_mh.errors import UnsupportedModelError, refusal_message
from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.model.constant_data import (
    compute_constant,
    data_behind,
    with_double_constants,
)
from pymc_minibatch_mh.model.independence_rules import (
    USE_NUTS,
    MixedRowsError,
    rebuild_output,
    rebuild_part,
    require_dense,
)
from pymc_minibatch_mh.model.stored_ops import (
    require_one_storage,
    stored_array,
    with_declared_lengths,
)

_ENTRY_BY_ENTRY = (Elemwise, DimShuffle, TensorFromXTensor, XTensorFromTensor)
SUMMARISE = "Compute such a summary from the data alone, before the model, or use pm.NUTS()."


@dataclass(eq=False)
class Likelihood:
    """One likelihood term, of the observed variable `name`, rewritten for a minibatch."""

    name: str
    n_rows: int
    #: Log-likelihood of each row of a minibatch, shape (batch,); and its symbolic number of rows.
    logp: Variable
    length: Variable
    #: Data arrays and symbolic minibatches of them, with rows on axis 0.
    batches: list[tuple[Column, Variable]] = field(default_factory=list)
    #: Observation axis of the model's own log-likelihood of this variable.
    axis: int = 0
    #: Weight of each observation's log-likelihood, shape (N,); None if all are 1.
    weights: np.ndarray | StoredArray | None = None
    #: Terms whose sum is this term, each with its own axis and weights; empty for a single term.
    joined: Sequence["Likelihood"] = ()

    @property
    def likelihoods(self) -> Sequence["Likelihood"]:
        """Terms of single observed variables that make up this term."""
        return self.joined or (self,)


class BatchWalk:
    """Backward walk through a log-likelihood graph that tracks the observation axis."""

    def __init__(
        self,
        name: str,
        n_rows: int | None,
        names: dict[Variable, str],
        observations: Variable | None = None,
    ) -> None:
        self.name = name
        self.observations = observations
        self._n_rows = n_rows
        self.names = names
        self.length = pt.lscalar("batch_length")
        self.batches: dict[tuple[Variable, int], tuple[Column, Variable]] = {}
        self.shared_by_all: list[Variable] = []
        self.computed_from: list[Variable] = []
        self._seen: dict[tuple[Variable, int], Variable] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows; by default that of the first data array, or 0 before one is read."""
        if self._n_rows is None:
            return next((c.values.shape[c.axis] for c, _ in self.batches.values()), 0)
        return self._n_rows

    def rows(self, variable: Variable, axis: int) -> Variable:
        """Rebuild `variable` for a minibatch whose rows lie along `axis`."""
        key = (variable, axis)
        if key not in self._seen:
            self._seen[key] = _repeat_single_row(self._batch_of(variable, axis), axis, self.length)
        return self._seen[key]

    def try_rows(self, condition: Variable, axes: Sequence[int]) -> Variable | None:
        """Whether all entries of each row hold, along the first axis that keeps rows apart."""
        for axis in axes:
            state = self._state
            try:
                rows = self.rows(condition, axis)
            except (MixedRowsError, UnsupportedModelError):
                self._state = state
            else:
                return pt.all(rows, axis=[k for k in range(rows.type.ndim) if k != axis])
        return None

    def whole(self, variable: Variable) -> Variable:
        """Declare `variable` common to all rows, and return it unchanged."""
        self.shared_by_all.append(variable)
        return variable

    def name_of(self, data: Variable) -> str:
        """Name of a data array, for messages."""
        return data.name or f"a data array of {self.name}"

    def is_free(self, variable: Variable) -> bool:
        """Whether `variable` depends on the position."""
        return any(v in self.names for v in ancestors([variable]))

    def _batch_of(self, variable: Variable, axis: int) -> Variable:
        stored = stored_array(variable)
        if stored is not None:
            return self._batch_of_data(variable, stored, axis)
        if variable.owner is not None:
            return self._rebuild_node(variable, axis)
        if variable in self.names:
            raise refusal_message(
                self.name,
                f"has a free variable with one value per observation ({self.names[variable]!r})",
                "Marginalise that variable, or sample the model with pm.NUTS().",
            )
        if not isinstance(variable, Constant | SharedVariable):
            raise MixedRowsError(variable, f"{variable} is not data")
        require_dense([variable], "an operation")
        return self._batch_of_data(variable, data_values(variable), axis)

    @property
    def _state(self) -> tuple[dict, list, list, dict]:
        state = self.batches, self.shared_by_all, self.computed_from, self._seen
        return tuple(map(copy, state))  # type: ignore[return-value]

    @_state.setter
    def _state(self, state: tuple[dict, list, list, dict]) -> None:
        self.batches, self.shared_by_all, self.computed_from, self._seen = state

    def _rebuild_node(self, variable: Variable, axis: int) -> Variable:
        state = self._state
        try:
            return self._by_rule(variable, axis)
        except (MixedRowsError, UnsupportedModelError):
            behind = data_behind(variable)
            # An expression of the observed data may mix observations, so it is not folded.
            if behind is None or self.observations in behind:
                raise
        self._state = state
        batch = self._batch_of_data(variable, compute_constant(variable), axis)
        self.computed_from += [v for v in behind if data_values(v).size >= self.n_rows]
        return batch

    def _by_rule(self, variable: Variable, axis: int) -> Variable:
        node = variable.owner
        try:
            if len(node.outputs) > 1:
                return rebuild_part(variable, axis, self)
            return rebuild_output(node.op, node, axis, self)
        except UnsupportedModelError:
            raise
        except (IndexError, TypeError, ValueError) as error:
            # The operands no longer fit each other, so the tracked axis is not the observation
            # axis.
            name = operation_name(node.op)
            why = f"the operands of {name} have other shapes for fewer observations"
            raise MixedRowsError(node.op, why) from error

    def _batch_of_data(
        self, variable: Variable, values: np.ndarray | StoredArray, axis: int
    ) -> Variable:
        name = self.name_of(variable)
        if values.shape[axis] != (self.n_rows or values.shape[axis]):
            raise refusal_message(
                self.name,
                f"uses {name!r}, whose length {values.shape[axis]:,} along its observation axis "
                f"differs from the {self.n_rows:,} observations",
                "Give every data array one entry per observation.",
            )
        if values.ndim > 3 or not is_supported_dtype(values.dtype):
            raise refusal_message(
                self.name,
                f"uses {name!r}, an array of type {values.dtype} with {values.ndim} axes",
                "Use real numbers in native byte order, floats of 32 bits or more, and at most "
                "three axes.",
            )
        column = Column(name, values, axis)
        if (variable, axis) not in self.batches:
            kind = pt.TensorType(dtype_in_batch(values.dtype), (None, *column.row_shape))
            self.batches[variable, axis] = (column, kind(f"{name}_batch"))
        # The model computes in the type of the array, so the batch is cast back to it.
        batch = self.batches[variable, axis][1].astype(variable.type.dtype)
        return pt.moveaxis(batch, 0, axis)


def _repeat_single_row(batch: Variable, axis: int, length: Variable) -> Variable:
    """Repeat a term with a single observation to the length of a minibatch.

    Rules treat an axis of length 1 as common to all rows. If all inputs have such axes, the result
    would keep length 1 in every minibatch, and compiled code would read beyond its end.
    """
    if not batch.type.broadcastable[axis]:
        return batch
    lengths = enumerate(batch.type.shape)
    shape = [batch.shape[k] if known is None else known for k, known in lengths]
    shape[axis] = length
    return pt.alloc(batch, *shape)


def is_supported_dtype(dtype: np.dtype) -> bool:
    """Whether compiled code supports a stored type."""
    return dtype.isnative and (dtype.kind in "iub" or dtype in (np.float32, np.float64))


def data_values(variable: Variable) -> Any:
    """Array or sparse matrix behind a constant or a shared variable, without a copy."""
    shared = isinstance(variable, SharedVariable)
    held = variable.get_value(borrow=True) if shared else variable.data
    if isinstance(held, np.ma.MaskedArray) and np.ma.is_masked(held):
        raise refusal_message(
            variable.name or "a data array",
            "is set to an array with masked entries, whose values are missing",
            "Drop the rows with missing values.",
        )
    return held if issparse(held) else np.asarray(held)


def batch_term(
    name: str,
    logp: Variable,
    n_rows: int | None,
    names: dict[Variable, str],
    observations: Variable | None = None,
) -> Likelihood:
    """Prove the observations of a term independent, and rewrite the term for a minibatch.

    If `n_rows` is None, data arrays tell the number.
    """
    if logp.type.ndim == 0:
        raise refusal_message(
            name, "has one log-likelihood for all of its values together", USE_NUTS
        )
    n_rows = logp.type.shape[0] if n_rows is None else n_rows
    if logp.type.shape[0] not in (None, n_rows):
        raise refusal_message(
            name,
            f"has {logp.type.shape[0]:,} log-likelihoods for {n_rows:,} observations",
            "Return one log-likelihood per observation.",
        )
    walk = BatchWalk(name, n_rows, names, observations)
    try:
        batch = with_declared_lengths(walk.rows(with_double_constants(logp), 0))
    except MixedRowsError as error:
        raise refusal_message(
            name, f"cannot be split into observations: {error.why}", error.fix
        ) from error
    _refuse_sums_over_rows(walk)
    require_one_storage(name, [column for column, _ in walk.batches.values()], batch)
    if batch.type.ndim > 1:
        batch = batch.sum(axis=tuple(range(1, batch.type.ndim)))
    return Likelihood(name, walk.n_rows, batch, walk.length, list(walk.batches.values()))


def _refuse_sums_over_rows(walk: BatchWalk) -> None:
    by_rows = [*(variable for variable, _ in walk.batches), *walk.computed_from]
    for shared in walk.shared_by_all if walk.n_rows > 1 else ():
        above = set(visit([shared], inputs_of_values))
        free = [walk.names[v] for v in above if v in walk.names]
        summed = [v for v in above if any(_same_data(v, other) for other in by_rows)]
        if free and summed:
            data = walk.name_of(summed[0])
            cause = f"has a term that combines all rows of {data!r} with {free[0]!r}"
            raise refusal_message(walk.name, cause, SUMMARISE)
        paired = [v for v in _copied_data(shared) if any(_same_data(v, other) for other in by_rows)]
        if shared.owner is not None and paired:
            data = walk.name_of(paired[0])
            cause = f"has a term that pairs each observation with all rows of {data!r}"
            raise refusal_message(walk.name, cause, SUMMARISE)


def inputs_of_values(variable: Variable) -> Sequence[Variable]:
    """Inputs of the operation behind a variable; empty if the operation needs only their shapes."""
    if variable.owner is None or isinstance(variable.owner.op, Shape | Shape_i):
        return ()
    return variable.owner.inputs


def _copied_data(variable: Variable) -> list[Variable]:
    """Data arrays that `variable` copies entry by entry, without sums."""

    def entry_by_entry(v: Variable) -> Sequence[Variable]:
        return v.owner.inputs if v.owner and isinstance(v.owner.op, _ENTRY_BY_ENTRY) else ()

    found = visit([variable], entry_by_entry)
    return [v for v in found if v.owner is None or stored_array(v) is not None]


def _same_data(variable: Variable, data: Variable) -> bool:
    if variable is data:
        return True
    both = isinstance(variable, Constant) and isinstance(data, Constant)
    return both and variable.type == data.type and variable.data is data.data
