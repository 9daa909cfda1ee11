"""Starting positions of chains, from the ``initvals`` of ``pm.sample``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.initial_point import make_initial_point_fns_per_chain
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.chain.starts import NEW_START
from pymc_minibatch_mh.checks import check_integer, check_positive
from pymc_minibatch_mh.errors import MinibatchError, SettingError, SourceError
from pymc_minibatch_mh.model.constant_data import IN_PYTHON, has_dims
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.inputs import as_generator, as_numeric_array, fits_shape
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.steps.base import MinibatchStep, model_behind, step_of


def overdispersed_initvals(
    step: MinibatchStep, chains: int, scale: float = 2.0, random_seed: Any = None
) -> list[dict[str, np.ndarray]]:
    """Draw a starting point for each chain from a widened Gaussian approximation.

    PyMC starts all chains of a given step at one point, which makes R-hat optimistic. Points are
    drawn on the unconstrained scale, and returned on the scale of the model's variables for
    ``pm.sample(initvals=...)``.

    Parameters
    ----------
    step
        A step method of this package.
    chains
        Number of starting points.
    scale
        Standard deviation of the starting points in posterior standard deviations.
    random_seed
        Seed or generator.

    Returns
    -------
    list of dict
        One dictionary per chain: name of the variable -> array.

    Raises
    ------
    SettingError
        If an argument is invalid, or if a variable has values along the dims of pymc.dims:
        PyMC takes no starting values for those.

    Examples
    --------
    >>> starts = overdispersed_initvals(step, chains=4)
    >>> len(starts), starts[0]["beta"].shape
    (4, (3,))
    """
    step = step_of(step)
    width = check_positive("scale", scale)
    rng = as_generator("random_seed", random_seed)
    count = check_integer("chains", chains)
    factorization = step.target.factorization
    for name, block in zip(factorization.natural, factorization.blocks, strict=True):
        if has_dims(block.variable) and block.shape:
            raise SettingError(
                f"{name!r} has values along the dims of pymc.dims, and PyMC takes no starting "
                "values for such variables. Leave out initvals=."
            )
    free = pytensor.function(
        [factorization.position, factorization.other_values],
        list(factorization.natural.values()),
        mode=IN_PYTHON,
        on_unused_input="ignore",
    )
    points = [step.near_position(rng, width) for _ in range(count)]
    others = step.target.source.others
    return [dict(zip(factorization.natural, free(point, others), strict=True)) for point in points]


#: Maximum number of draws from the Gaussian approximation to find a positive density.
MAX_TRIES = 100
#: Names of PyMC's strategies, which `initvals` may have instead of values.
STRATEGIES = ("support_point", "prior")


def starting_positions(
    step: MinibatchStep, initvals: Any, chains: int, rng: np.random.Generator
) -> np.ndarray:
    """Unconstrained starting position of each chain, shape (chains, d).

    `initvals` are those of :func:`pymc.sample`; names of deterministics and of observed variables
    are ignored, because :func:`pymc.find_MAP` returns them. None means a draw from the widened
    Gaussian approximation, or the centre of a step with ``centre="start"``. Starting values of the
    user may have zero density. SettingError if `initvals` do not fit the model.
    """
    given = _for_each_chain(initvals, chains)
    factorization = step.target.factorization
    starts = np.empty((chains, factorization.size))
    model = model_behind(step) if any(one is not None for one in given) else None
    for chain, one in enumerate(given):
        if model is None or one is None:
            starts[chain] = _dispersed_position(step, rng)
        else:
            starts[chain] = _start_position(model, factorization, one, int(rng.integers(2**30)))
    return starts


def _for_each_chain(initvals: Any, chains: int) -> list[Mapping[Any, Any] | None]:
    if initvals is None or isinstance(initvals, Mapping):
        return [initvals] * chains
    if not isinstance(initvals, Sequence) or isinstance(initvals, str):
        raise SettingError(
            f"initvals={type(initvals).__name__} is not a set of starting values. Give a "
            "dictionary of variables and values, or a list of one for each chain."
        )
    if len(initvals) != chains:
        raise SettingError(
            f"initvals= are {len(initvals)} dictionaries for {chains} chains. Give one for each "
            "chain, or a single one for all."
        )
    for one in initvals:
        if one is not None and not isinstance(one, Mapping):
            raise SettingError(
                f"initvals= contain {type(one).__name__}, which is not a dictionary of starting "
                "values. Give a dictionary for each chain, or None."
            )
    return list(initvals)


def _dispersed_position(step: MinibatchStep, rng: np.random.Generator) -> np.ndarray:
    factorization = step.target.factorization
    if step.target.covariance is not None:
        # With ``centre="start"`` the posterior mode is unknown: use the start itself.
        return step.plan.reference.centre.copy()
    for _ in range(MAX_TRIES):
        position = step.near_position(rng, NEW_START)
        inside = np.all((position >= factorization.lower) & (position <= factorization.upper))
        try:
            if inside:
                step.target.require_finite_start(position)
                return position
        except SourceError:
            # A read error says nothing about this position: do not try another one.
            raise
        except MinibatchError:
            continue
    names = ", ".join(repr(block.name) for block in factorization.blocks)
    raise SettingError(
        f"{names}: none of {MAX_TRIES} draws from the widened Gaussian approximation has a finite "
        "density, for example because a prior ends near the mode. Pass initvals=."
    )


def _start_position(
    model: pm.Model, factorization: Factorization, given: Mapping[Any, Any], seed: int
) -> np.ndarray:
    overrides = _check_names(model, given)
    try:
        (start,) = make_initial_point_fns_per_chain(
            model=model, overrides=overrides, jitter_rvs=set(), chains=1
        )
        point = start(seed)
    except Exception as error:
        names = ", ".join(repr(name) for name in overrides)
        raise SettingError(
            f"initvals= of {names}: PyMC cannot make a starting point from them ({error}). Give "
            "arrays of numbers."
        ) from error
    for block in factorization.blocks:
        _require_inside(model, factorization, block, point[block.name])
    return factorization.ravel(point)


def _check_names(model: pm.Model, given: Mapping[Any, Any]) -> dict[str, Any]:
    """Starting values, keyed by the names of their variables."""
    free = {str(rv.name): rv for rv in model.free_RVs}
    starts = {str(value.name): value for value in model.value_vars} | free
    checked = {}
    for key, value in given.items():
        name = str(key.name) if isinstance(key, Variable) else key
        known = name in starts or name in model.named_vars
        # PyMC silently ignores names of value variables, which are accepted here.
        if not known or (isinstance(key, Variable) and model.named_vars.get(name) is not key):
            raise SettingError(
                f"initvals= have {str(key)!r}, which is not a variable of the model. Choose from "
                f"{list(free)}."
            )
        if name in starts:
            checked[name] = _check_value(model, name, starts[name], value)
    return checked


def _check_value(model: pm.Model, name: str, variable: Variable, value: Any) -> Any:
    if value is None or isinstance(value, Variable):
        return value
    if isinstance(value, str) and value in STRATEGIES:
        return value
    rv = model.values_to_rvs.get(variable, variable)
    if has_dims(rv) and rv.type.ndim and model.rvs_to_transforms[rv] is not None:
        raise SettingError(
            f"initvals= have {name!r}, which has values along the dims of pymc.dims and a "
            "transform, and PyMC takes no starting values for such variables. Leave it out."
        )
    array, shape = as_numeric_array(f"initvals= have {name!r} with", value), variable.type.shape
    if not fits_shape(array.shape, shape) or array.dtype.kind not in "fiub":
        raise SettingError(
            f"initvals= have {name!r} of type {array.dtype} and shape {array.shape}, which does "
            f"not fit the variable. Give real numbers of shape {shape}, or one of {STRATEGIES}."
        )
    return array


def _require_inside(
    model: pm.Model, factorization: Factorization, block: Block, values: np.ndarray
) -> None:
    name = str(model.values_to_rvs[block.variable].name)
    if values.shape != block.shape:
        raise SettingError(
            f"initvals= start {name!r} with unconstrained values of shape {values.shape} instead "
            f"of {block.shape}. Give values of the shape with which the step was built."
        )
    place = slice(block.start, block.stop)
    flat = block.flat(values)
    lower, upper = factorization.support_of_values
    inside = np.isfinite(flat) & (flat >= lower[place]) & (flat <= upper[place])
    if not inside.all():
        raise SettingError(
            f"initvals= start {name!r} outside its support: {flat[~inside][0]:g} on the "
            "unconstrained scale. Give values inside it."
        )
