"""Observation weights as a data array that multiplies the log-likelihood."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.data import Column, dtype_in_batch
from pymc_minibatch_mh.data.source import StoredArray, StoredRows
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.independence import Likelihood, is_supported_dtype
from pymc_minibatch_mh.model.inputs import as_numeric_array, term_storage
from pymc_minibatch_mh.model.stored_ops import row_blocks, stored_array
from pymc_minibatch_mh.progress import count_parts

#: Weights by the names of observed variables, or the weights of the only subsampled one: one number
#: per row, or the placeholder of an array of Rows(...).
type Weights = Mapping[str, Any] | np.ndarray | Sequence[float] | Variable


def weigh_terms(terms: Sequence[Likelihood], weights: Weights | None) -> None:
    """Multiply the log-likelihood of every observation by its weight, in place."""
    if weights is None:
        return
    by_name = {term.name: term for term in terms}
    if not isinstance(weights, Mapping):
        if len(terms) != 1:
            raise SettingError(
                f"weights= is one array for {len(terms)} observed variables. Pass a dictionary "
                f"with keys from {sorted(by_name)}."
            )
        weights = dict.fromkeys(by_name, weights)
    for name, values in weights.items():
        if name not in by_name:
            raise SettingError(
                f"weights= are given for {name!r}, which is not an observed variable that is "
                f"subsampled. Choose from {sorted(by_name)}. Multiply the rows of a potential in "
                "the model."
            )
        _weigh_term(by_name[name], _checked_weights(by_name[name], values))


def term_weights(terms: Sequence[Likelihood]) -> dict[str, np.ndarray]:
    """Weights in memory, with names for messages."""
    return {
        _name_of_weights(term): w for term in terms if isinstance(w := term.weights, np.ndarray)
    }


def _name_of_weights(term: Likelihood) -> str:
    return f"weights of {term.name}"


def _checked_weights(term: Likelihood, values: Any) -> np.ndarray | StoredArray:
    given = stored_array(values) if isinstance(values, Variable) else None
    storage = term_storage(term)
    if storage is not None and (given is None or given.storage is not storage):
        raise SettingError(
            f"weights= are given for {term.name!r}, whose data are in Rows(...), but the weights "
            'are not in the same Rows. Put them there as well, and give weights=rows.data("...").'
        )
    if storage is None and given is not None:
        raise SettingError(
            f"weights= of {term.name!r} are {given.name!r} of Rows(...), but its data are not. "
            "Give an array, or put all into one Rows(...)."
        )
    subject = f"weights= of {term.name!r} have"
    array = as_numeric_array(subject, values) if given is None else given
    if array.shape != (term.n_rows,) or array.dtype.kind not in "fiub":
        raise SettingError(
            f"weights= of {term.name!r} are an array of type {array.dtype} and shape "
            f"{array.shape}. Give one number for each of the {term.n_rows:,} rows."
        )
    column = Column(_name_of_weights(term), array, 0)
    if not _has_positive(term, column):
        raise SettingError(f"weights= of {term.name!r} are all 0. Leave it out of observed=.")
    if isinstance(array, StoredArray) or is_supported_dtype(array.dtype):
        return array
    return array.astype(np.float64)


def _has_positive(term: Likelihood, column: Column) -> bool:
    """Whether some weight is positive; raises an error for negative or non-finite weights."""
    positive, blocks = False, list(row_blocks(term.n_rows, [column]))
    with count_parts("Checking the weights", len(blocks)) as advance:
        for block in blocks:
            values = column.read(block)
            wrong = ~np.isfinite(values) | (values < 0)
            if wrong.any():
                row = int(np.argmax(wrong))
                number = block.start + row
                stored = isinstance(column.values, StoredArray)
                place = StoredRows((column,)).place(number) if stored else ""
                raise SettingError(
                    f"weights= of {term.name!r} are {values[row]} in row {number}{place}. Give "
                    "finite numbers of 0 or more."
                )
            positive = positive or bool(values.any())
            advance()
    return positive


def _weigh_term(term: Likelihood, values: np.ndarray | StoredArray) -> None:
    column = Column(_name_of_weights(term), values, 0)
    batch = pt.TensorType(dtype_in_batch(values.dtype), (None,))(f"{column.name}_batch")
    term.batches.append((column, batch))
    term.logp = term.logp * batch.astype("float64")
    term.weights = values
