"""Rows that count more or less than once: the log-likelihood Σ w_i l_i."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_minibatch_mh.data import Column, dtype_once_read
from pymc_minibatch_mh.data.stored import StoredArray
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.reading.batch import BatchTerm, is_readable
from pymc_minibatch_mh.model.reading.inputs import Weights, array_of


def weigh(terms: Sequence[BatchTerm], weights: Weights) -> None:
    """Multiply the log-likelihood of every row by its weight, in place.

    Weights become one more data array of a term: its rows, their differences and their bounds
    scale with them.

    Parameters
    ----------
    terms
        The subsampled terms.
    weights
        Name of an observed variable -> array of shape (N,); or the array, if there is one term.

    Raises
    ------
    SettingError
        If weights are of no such variable, or no non-negative numbers, one per row.
    """
    by_name = {term.name: term for term in terms}
    if not isinstance(weights, Mapping):
        if len(terms) > 1:
            raise SettingError(
                f"weights= is one array for {len(terms)} observed variables. Pass a dictionary "
                f"with keys out of {sorted(by_name)}."
            )
        weights = dict.fromkeys(by_name, weights)
    for name, values in weights.items():
        if name not in by_name:
            raise SettingError(
                f"weights= are given for {name!r}, which is not subsampled. Choose from "
                f"{sorted(by_name)}."
            )
        if any(isinstance(column.values, StoredArray) for column, _ in by_name[name].batches):
            raise SettingError(
                f"weights= are given for {name!r}, whose data are of Rows(...). Put the weights "
                "into Rows(...) as well, and multiply by them in the logp= of a pm.CustomDist."
            )
        _weigh(by_name[name], _checked(by_name[name], values))


def weights_of(terms: Sequence[BatchTerm]) -> dict[str, np.ndarray]:
    """Return the weights of terms that have some, with names for messages."""
    return {_name(term): term.weights for term in terms if term.weights is not None}


def _name(term: BatchTerm) -> str:
    return f"weights of {term.name}"


def _checked(term: BatchTerm, values: Any) -> np.ndarray:
    array = array_of(f"weights= of {term.name!r} have", values)
    if array.shape != (term.n_rows,) or array.dtype.kind not in "fiub":
        raise SettingError(
            f"weights= of {term.name!r} are an array of type {array.dtype} and shape "
            f"{array.shape}. Give one number for each of the {term.n_rows:,} rows."
        )
    wrong = ~np.isfinite(array) | (array < 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise SettingError(
            f"weights= of {term.name!r} are {array[row]} in row {row}. Give finite numbers of 0 "
            "or more."
        )
    if not array.any():
        raise SettingError(f"weights= of {term.name!r} are all 0. Leave it out of observed=.")
    return array if is_readable(array.dtype) else array.astype(np.float64)


def _weigh(term: BatchTerm, values: np.ndarray) -> None:
    column = Column(_name(term), values, 0)
    dtype = dtype_once_read(values.dtype)
    batch = pt.TensorType(dtype, (None,))(f"{column.name}_batch")
    term.batches.append((column, batch))
    term.logp = term.logp * batch.astype("float64")
    term.weights = values
