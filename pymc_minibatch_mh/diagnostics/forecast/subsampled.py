"""What of a model is subsampled, what is not, and why."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.diagnostics.forecast.linear_forms import in_words
from pymc_minibatch_mh.diagnostics.forecast.records import (
    DataArray,
    InCoordinates,
    NotSubsampled,
    SubsampledTerm,
)
from pymc_minibatch_mh.errors import BoundsError, UnsplittableModelError
from pymc_minibatch_mh.model.reading.batch import BatchTerm
from pymc_minibatch_mh.model.reading.joined import likelihoods_of
from pymc_minibatch_mh.model.reading.split import Split, split
from pymc_minibatch_mh.model.reading.terms import MIN_ROWS, number_of_rows
from pymc_minibatch_mh.model.row.function import row_functions

PRIOR = "a prior, which has no rows"


def subsampled(parts: Split, why_graph: str = "") -> tuple[SubsampledTerm, ...]:
    """Return what is known of every subsampled term.

    Parameters
    ----------
    parts
        The model, split.
    why_graph
        Why rows are computed as a graph of all parameters, if they are.
    """
    return tuple(_term(parts, term, why_graph) for term in parts.terms)


def _term(parts: Split, term: BatchTerm, why_graph: str) -> SubsampledTerm:
    arguments: tuple[str, ...] = ()
    not_apart = f"computed as a graph of all parameters, because {why_graph}" if why_graph else ""
    try:
        # One term at a time, so that one which cannot be taken apart does not hide the others.
        (function,) = row_functions(dataclasses.replace(parts, terms=(term,)))
        arguments = in_words(function, parts)
    except BoundsError as error:
        not_apart = str(error)
    arrays = tuple(_array(column) for column, _ in term.batches)
    return SubsampledTerm(term.name, term.n_rows, arguments, not_apart, arrays)


def _array(column: Column) -> DataArray:
    shape, dtype = column.row_shape, column.values.dtype
    size = dtype.itemsize * int(np.prod(shape, dtype=int))
    return DataArray(column.name, str(dtype), shape, size)


def variable_names(parts: Split, places: Sequence[int]) -> str:
    """Return which variables some coordinates belong to, in words."""
    pairs = zip(parts.blocks, parts.natural, strict=True)
    found = [repr(name) for b, name in pairs if any(b.start <= k < b.stop for k in places)]
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def in_coordinates(parts: Split) -> tuple[InCoordinates, ...]:
    """Return which variables have others in their place, and what stands against it for more."""
    if parts.coordinates is None:
        return ()
    mapped = [InCoordinates(one.name, one.words) for one in parts.coordinates.maps]
    refused = [InCoordinates(name, "", why) for name, why in parts.coordinates.refused]
    return (*dict.fromkeys(mapped), *refused)


def not_subsampled(
    model: pm.Model, parts: Split, directions: Sequence[np.ndarray] = ()
) -> tuple[NotSubsampled, ...]:
    """Return what of a model that can be subsampled is evaluated otherwise.

    Parameters
    ----------
    model
        The model.
    parts
        How it was split.
    directions
        Directions of the position that are moved along without rows.
    """
    chosen = set(likelihoods_of(parts.terms))
    found = [
        NotSubsampled(str(rv.name), _why_in_full(number_of_rows(model, rv)))
        for rv in model.observed_RVs
        if rv.name not in chosen
    ]
    reasons = _reasons_of_variables(parts)
    for name, why in _moved_without_rows(parts, directions).items():
        reasons[name] = f"{reasons.get(name, PRIOR)}; {why}"
    return (*found, *_without_rows(model, reasons))


def of_refused_model(
    model: pm.Model, vars: list[Variable], **reading: Any
) -> tuple[NotSubsampled, ...]:
    """Return why nothing of a model is subsampled, each observed variable tried on its own.

    Parameters
    ----------
    model
        The model.
    vars
        Value variables that would be sampled.
    **reading
        What else :func:`split` takes.
    """
    tried = {**reading, "weights": None}
    found = []
    for rv in model.observed_RVs:
        name, count = str(rv.name), number_of_rows(model, rv)
        reason = _why_in_full(count)
        if count >= MIN_ROWS:
            try:
                split(model, vars, **{**tried, "observed": [name]})
                reason = f"could be subsampled without the others: observed=[{name!r}]"
            except UnsplittableModelError as error:
                reason = str(error)
        found.append(NotSubsampled(name, reason))
    return (*found, *_without_rows(model, {}))


def _why_in_full(count: int) -> str:
    if count < MIN_ROWS:
        return f"{count:,} rows, fewer than {MIN_ROWS:,}: evaluated in full at every update"
    return f"{count:,} rows, but not named in observed=: evaluated in full at every update"


def _without_rows(model: pm.Model, of_others: dict[str, str]) -> list[NotSubsampled]:
    found = [
        NotSubsampled(str(rv.name), of_others.get(str(model.rvs_to_values[rv].name), PRIOR))
        for rv in model.free_RVs
    ]
    potentials = [str(potential.name) for potential in model.potentials]
    return found + [NotSubsampled(name, "a potential, which has no rows") for name in potentials]


def _reasons_of_variables(parts: Split) -> dict[str, str]:
    """Return why variables of other steps are not moved: name of the value variable -> why."""
    discrete = parts.discrete_in_rows
    reasons = {}
    for block in (*parts.blocks, *parts.others):
        if block.name in discrete:
            why = "discrete, and rows depend on it: another step moves it, the pilot holds it"
        elif block in parts.others:
            why = "no row depends on it: another step moves it, the pilot holds it"
        elif block.stop <= parts.first:
            why = "rows depend on it, but another step moves it: the pilot holds it"
        else:
            continue
        reasons[block.name] = f"{PRIOR}; {why}"
    return reasons


def _moved_without_rows(parts: Split, directions: Sequence[np.ndarray]) -> dict[str, str]:
    """Return how variables move without rows: name of the value variable -> in words."""
    found = {}
    for direction in directions:
        moved = [b.name for b in parts.blocks if direction[b.start : b.stop].any()]
        for name in moved:
            others = " and ".join(repr(other) for other in moved if other != name)
            if np.count_nonzero(direction) == 1:
                found[name] = "no row depends on it, so that it is also moved without rows"
            elif others:
                found.setdefault(name, f"also moved without rows, together with {others}")
            else:
                found.setdefault(name, "also moved without rows, all of it alike")
    return found
