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
from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.model.reading.split import split
from pymc_minibatch_mh.model.reading.weights import weights_of
from pymc_minibatch_mh.steps.adaptation import PREPARATION_SEED
from pymc_minibatch_mh.steps.audit import audited
from pymc_minibatch_mh.steps.decision import Decision
from pymc_minibatch_mh.steps.freshness import WatchedModel
from pymc_minibatch_mh.steps.prepared import Prepared, read
from pymc_minibatch_mh.steps.settings import SharedSettings

#: Rows that tell at once whether a start has a density.
START_ROWS = 100_000


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
        shared: SharedSettings,
    ) -> Self | None:
        """Return the request that settings make, None where they cannot be compared."""
        weights = _arrays(shared["weights"])
        if weights is None or shared["compile_kwargs"]:
            return None
        named = shared["observed"], shared["observation_dims"], model.named_vars_to_dims
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
    _prepared: dict[tuple[int, float], Prepared] = field(default_factory=dict)

    def prepared(
        self,
        target: Target,
        decision: Decision,
        model: pm.Model,
        start: np.ndarray,
        file: str | PathLike | None,
    ) -> Prepared:
        """Return what passes over all rows find for a step, and no more than its test needs.

        Parameters
        ----------
        target
            The model for the step's order and temperature.
        decision
            The step's test.
        model
            The model itself.
        start
            Where the search for the mode starts.
        file
            A prepared step to read, if one was given.
        """
        key = target.taylor_order, target.inverse_temperature
        if file is not None:
            target.require_finite(start)
            found = read(file, target)
        else:
            found = self._prepared.get(key) or _expanded(target, model, start)
        if decision.needs_calibration and found.calibration is None:
            rng = np.random.default_rng(PREPARATION_SEED)
            found = replace(found, calibration=target.calibrate(found.surrogate, rng))
        if decision.takes_derived_bounds and found.tables is None:
            found = _bounded(found, target, decision)
        if file is None:
            # Arrays can be large: those of another order or temperature make room.
            self._prepared = {key: found}
        return _needed(found, decision)


def _expanded(target: Target, model: pm.Model, start: np.ndarray) -> Prepared:
    # A chain that starts here asks all rows. The search for the mode starts on a few.
    target.require_finite(start, START_ROWS)
    rng = np.random.default_rng(PREPARATION_SEED)
    try:
        surrogate = target.expand(start, rng)
    except ModeError:
        # A row that has no density is the better reason.
        target.require_finite(start)
        raise
    target.check(model, surrogate, rng)
    return Prepared(surrogate, None, None)


def _bounded(found: Prepared, target: Target, decision: Decision) -> Prepared:
    tables = decision.tables(target, found.surrogate)
    assert tables is not None
    rng = np.random.default_rng(PREPARATION_SEED)
    violation = audited(target, found.surrogate, tables, rng)
    return replace(found, tables=tables, violation=violation)


def _needed(found: Prepared, decision: Decision) -> Prepared:
    if not decision.takes_derived_bounds:
        found = replace(found, tables=None, violation=None)
    if not decision.needs_calibration:
        found = replace(found, calibration=None)
    # A file has the spread of the step that wrote it, which may have measured it or not.
    spread = np.inf if found.calibration is None else found.calibration.spread
    return replace(found, surrogate=found.surrogate._replace(spread=spread))


#: The last that was read of every model that is still in use.
_known: WeakKeyDictionary[pm.Model, SharedModel] = WeakKeyDictionary()


def read_model(
    model: pm.Model,
    vars: Sequence[Variable],
    point: dict[str, np.ndarray],
    shared: SharedSettings,
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
    shared
        Settings of the step.

    Raises
    ------
    UnsplittableModelError
        If rows of a term cannot be proven to be independent given the parameters.
    SettingError
        If settings do not fit the model.
    """
    request = Request.of(model, vars, point, shared)
    known = _known.get(model)
    is_same = request is not None and known is not None and known.request == request
    if is_same and known is not None and known.watched.is_unchanged:
        return known
    parts = split(
        model,
        vars,
        shared["observed"],
        weights=shared["weights"],
        observation_dims=shared["observation_dims"],
        initial_point=point,
    )
    watched = WatchedModel(model, parts.arrays, weights_of(parts.terms))
    found = SharedModel(request, watched, Target(parts, 2, 1.0, shared["compile_kwargs"]))
    if request is not None:
        _known[model] = found
    return found
