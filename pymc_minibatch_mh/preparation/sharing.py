"""What steps on one model share in a process: graphs, compiled functions, sums over the rows.

A second step on the same model and data asks for nothing that the first has found.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.data import Contents
from pymc_minibatch_mh.errors import ModeError, SplitCheckError
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.model.reading.inputs import Weights
from pymc_minibatch_mh.model.reading.split import split
from pymc_minibatch_mh.model.reading.weights import weights_of
from pymc_minibatch_mh.model.row.scaled import in_linear_coordinates
from pymc_minibatch_mh.preparation.appended import appended
from pymc_minibatch_mh.preparation.file import key_of_expansion, read
from pymc_minibatch_mh.preparation.freshness import WatchedModel
from pymc_minibatch_mh.preparation.needs import Needs
from pymc_minibatch_mh.preparation.prepared import PREPARATION_SEED, Prepared
from pymc_minibatch_mh.preparation.products import with_products
from pymc_minibatch_mh.preparation.shapes import with_best_shapes
from pymc_minibatch_mh.preparation.stored import require_drawn_ahead, require_same_again

#: Rows that tell at once whether a start has a density.
START_ROWS = 100_000


@dataclass(frozen=True)
class ReadingSettings:
    """How a user wants a model to be read.

    Parameters
    ----------
    observed
        Names of the observed variables to subsample, None for all large ones.
    weights
        What the log-likelihood of each row is multiplied by.
    observation_dims
        Names of dims along which observations lie.
    compile_kwargs
        Passed on to :func:`pytensor.function`.
    in_linear_coordinates
        Whether positions may lie in coordinates in which rows are linear.
    """

    observed: Sequence[str] | None
    weights: Weights | None
    observation_dims: Sequence[str]
    compile_kwargs: Mapping[str, Any] | None
    in_linear_coordinates: bool = True


@dataclass(frozen=True)
class Request:
    """What a step asks of a model: equal requests on the same model split it in the same way.

    Parameters
    ----------
    vars
        The value variables that the step moves.
    point
        Where the search for the mode starts.
    weights
        What the rows' weights held.
    reading
        Which variables and axes were asked for, in words.
    """

    vars: tuple[Variable, ...]
    point: Contents
    weights: Contents
    reading: str

    @classmethod
    def of(
        cls,
        model: pm.Model,
        vars: Sequence[Variable],
        point: Mapping[str, np.ndarray],
        reading: ReadingSettings,
    ) -> Self | None:
        """Return the request that settings make, None where they cannot be compared."""
        weights = _arrays(reading.weights)
        if weights is None or reading.compile_kwargs:
            return None
        named = (
            reading.observed,
            reading.observation_dims,
            reading.in_linear_coordinates,
            model.named_vars_to_dims,
        )
        return cls(tuple(vars), Contents.of(point.items()), Contents.of(weights), repr(named))


def _arrays(weights: Any) -> list[tuple[str, np.ndarray]] | None:
    if weights is None:
        return []
    given = weights if isinstance(weights, Mapping) else {"": weights}
    arrays = [(str(name), values) for name, values in given.items()]
    return arrays if all(_is_of_numbers(values) for _, values in arrays) else None


def _is_of_numbers(values: Any) -> bool:
    return type(values) is np.ndarray and values.dtype.kind in "fiub"


@dataclass(eq=False)
class SharedModel:
    """A model that was read for a step, for all steps that ask for the same.

    Parameters
    ----------
    request
        What was asked for.
    watched
        The model and its data as they were.
    target
        The model, split and compiled, for some order and temperature.
    """

    request: Request | None
    watched: WatchedModel
    target: Target
    _known: dict[tuple[str, ...], Prepared] = field(default_factory=dict)

    def prepared(
        self,
        target: Target,
        needs: Needs,
        model: pm.Model,
        start: np.ndarray,
        given: str | PathLike | Prepared | None,
    ) -> Prepared:
        """Return what passes over all rows find for a method, and no more than it needs.

        Parameters
        ----------
        target
            The model for the step's order and temperature.
        needs
            What the step's method needs.
        model
            The model itself.
        start
            Where the search for the mode starts.
        given
            The file of a prepared step, or what was found of the first of these rows.
        """
        if not target.source.in_memory:
            require_drawn_ahead(needs, target.split.terms[0].name)
        key = tuple(key_of_expansion(target).values())
        found = self._known.get(key) if given is None else _taken_over(given, target, start)
        found = found or _expanded(target, model, start)
        found = replace(found, target=target, needs=needs)
        if needs.given:
            # Those of a user are shared with nobody.
            found = replace(found, calibration=None, heavy=None, tables=None, violation=None)
            return found.completed()
        found = found.completed()
        if given is None:
            # Arrays can be large: those of another order or temperature make room.
            self._known = {key: found}
        return _needed(found)


def _taken_over(
    given: str | PathLike | Prepared, target: Target, start: np.ndarray
) -> Prepared | None:
    if isinstance(given, Prepared):
        return appended(given, target, start)
    target.require_finite(start)
    return read(given, target)


def _expanded(target: Target, model: pm.Model, start: np.ndarray) -> Prepared:
    # A chain that starts here asks all rows. The search for the mode starts on a few.
    target.require_finite(start, START_ROWS)
    rng = np.random.default_rng(PREPARATION_SEED)
    try:
        surrogate, marginal = target.expansion(start, rng)
    except ModeError as error:
        # Data that change, or a row that has no density, are the better reason.
        require_same_again(target)
        target.require_finite(start)
        products = _products(target)
        if not products:
            raise
        raise ModeError(f"{error} {products}") from error
    try:
        target.check(model, surrogate, rng)
    except SplitCheckError:
        require_same_again(target)
        raise
    return Prepared(target, Needs(), surrogate, marginal=marginal)


def _products(target: Target) -> str:
    """Return which products of parameters rows have and keep, and why."""
    coordinates = target.split.coordinates
    refused = coordinates.refused if coordinates is not None else ()
    return " ".join(f"{name!r} {reason}." for name, reason in refused)


def _needed(found: Prepared) -> Prepared:
    needs = found.needs
    if not needs.derives:
        found = replace(found, tables=None, violation=None)
    return found if needs.calibration else replace(found, calibration=None, heavy=None)


#: The last that was read of every model that is still in use.
_known: WeakKeyDictionary[pm.Model, SharedModel] = WeakKeyDictionary()


def read_model(
    model: pm.Model,
    vars: Sequence[Variable],
    point: dict[str, np.ndarray],
    reading: ReadingSettings,
) -> SharedModel:
    """Read a model, unless a step has asked for the same and nothing has changed since.

    Parameters
    ----------
    model
        The model.
    vars
        Value variables that the step moves.
    point
        Where the search for the mode starts.
    reading
        How to read it.

    Raises
    ------
    UnsplittableModelError
        If rows of a term cannot be proven to be independent given the parameters.
    SettingError
        If settings do not fit the model.
    """
    request = Request.of(model, vars, point, reading)
    known = _known.get(model)
    is_same = request is not None and known is not None and known.request == request
    if is_same and known is not None and known.watched.is_unchanged:
        return known
    parts = split(
        model,
        vars,
        reading.observed,
        weights=reading.weights,
        observation_dims=reading.observation_dims,
        initial_point=point,
    )
    if reading.in_linear_coordinates:
        linear = in_linear_coordinates(parts)
        linear = with_products(parts, linear, point, reading.compile_kwargs)
        target = with_best_shapes(parts, linear, point, reading.compile_kwargs)
    else:
        target = Target(parts, 2, 1.0, reading.compile_kwargs)
    watched = WatchedModel(model, parts.arrays, weights_of(parts.terms))
    found = SharedModel(request, watched, target)
    if request is not None:
        _known[model] = found
    return found
