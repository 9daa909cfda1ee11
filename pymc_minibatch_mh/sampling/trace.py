"""The trace of chains that were sampled outside of PyMC's loop, as ``pm.sample`` returns it.

Chains keep the unconstrained position and the statistics of each draw. Variables are computed from
positions afterwards.
"""

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Literal

import numpy as np
import pymc as pm
import xarray as xr
from arviz_base import dict_to_dataset
from pymc.backends.arviz import (
    coords_and_dims_for_inferencedata,
    find_constants,
    find_observations,
)
from pymc.util import get_default_varnames
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.likelihood.factorization import Factorization
from pymc_minibatch_mh.sampling.evaluation import values_at
from pymc_minibatch_mh.steps.deterministics import LargeDeterministic, large_deterministics

_log = logging.getLogger("pymc")


@dataclass(frozen=True, eq=False)
class Recorded:
    """Graphs of the variables that are kept of every draw, in PyMC's order, and of large ones."""

    variables: tuple[Variable, ...]
    large: tuple[tuple[LargeDeterministic, Variable], ...]


def recorded(
    model: pm.Model, point: Mapping[str, np.ndarray], var_names: Sequence[str] | None = None
) -> Recorded:
    """Choose the variables that are kept, by default all but the large deterministics.

    Shapes may depend on the `point` of value variables. SettingError if `var_names` has a name that
    is no free variable or deterministic, has one twice, has none, or only large deterministics.
    """
    chosen = _chosen(model, var_names)
    named = {str(v.name) for v in chosen}
    known = {str(v.name) for v in model.deterministics} - named
    large = {one.name: one for one in large_deterministics(model, point, known)}
    if var_names is None:
        if large:
            _log.info(
                "Large deterministics are left out of the trace. 1,000 draws of a chain would be: "
                "%s. Name one in var_names= to keep it of a few draws of each chain.",
                "; ".join(f"{one.name!r}, {one.priced}" for one in large.values()),
            )
        return Recorded(tuple(v for v in model.unobserved_value_vars if v.name not in large), ())
    graphs = model.replace_rvs_by_values(chosen)
    by_name = dict(zip((str(v.name) for v in chosen), graphs, strict=True))
    small = tuple(by_name[name] for name in by_name if name not in large)
    if not small:
        raise SettingError(
            f"var_names={list(var_names)} are large deterministics only, which are kept of few "
            f"draws. Name a parameter as well, such as {str(model.free_RVs[0].name)!r}."
        )
    return Recorded(small, tuple((one, by_name[name]) for name, one in large.items()))


def _chosen(model: pm.Model, var_names: Sequence[str] | None) -> list[Variable]:
    unobserved = {str(v.name): v for v in model.unobserved_RVs}
    if var_names is None:
        return list(unobserved.values())
    names = list(var_names)
    if isinstance(var_names, str) or not names:
        raise SettingError(
            f"var_names={var_names!r} is no list of names. Choose from {list(unobserved)}."
        )
    for name in names:
        if name not in unobserved:
            raise SettingError(
                f"var_names= has {name!r}, which is no free variable and no deterministic of the "
                f"model. Choose from {list(unobserved)}."
            )
        if names.count(name) > 1:
            raise SettingError(f"var_names= has {name!r} twice. Name each once.")
    return [v for name, v in unobserved.items() if name in names]


#: Draws of each chain of which large deterministics are kept, and bytes that they may take.
LARGE_DRAWS, LARGE_BYTES = 100, 2**30
#: The group of large deterministics.
THINNED = "posterior_thinned"


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of one phase: unconstrained, shape (chains, draws, d), and stats, (chains, draws)."""

    positions: np.ndarray
    stats: Mapping[str, np.ndarray]
    #: Numbers of the chains and of the draws that interrupts and thinning have left.
    coords: Mapping[Literal["chain", "draw"], np.ndarray]


def datatree_of(
    model: pm.Model,
    factorization: Factorization,
    kept: Recorded,
    draws: Draws,
    attrs: Mapping[str, str | float],
    *,
    warm_up: Draws | None = None,
) -> xr.DataTree:
    """Return the tree that ``pm.sample`` returns for the same draws.

    Large deterministics have a group of their own, ``posterior_thinned``, of evenly spaced draws
    after warm-up: at most 100 of each chain (400 draws tell a mean to a twentieth of a standard
    deviation), and at most 1 GiB in all, twice that while the tree is made.
    """
    factorization = _in_variables_of(model, factorization)
    parts = {"warmup_": warm_up, "": draws}
    phases = {k: x for k, x in parts.items() if x is not None and x.positions.shape[1]}
    groups = {
        f"{prefix}posterior": _posterior(model, factorization, kept.variables, part, attrs)
        for prefix, part in phases.items()
    }
    for prefix, part in phases.items():
        stats = _dataset(model, part.stats, part.coords, attrs, with_dims=False)
        groups[f"{prefix}sample_stats"] = stats
    groups["observed_data"] = _dataset(model, find_observations(model), {})
    if constants := find_constants(model):
        groups["constant_data"] = _dataset(model, constants, {})
    if kept.large:
        groups[THINNED] = _thinned(model, factorization, kept, draws, attrs)
    return xr.DataTree.from_dict(groups)


def _in_variables_of(model: pm.Model, factorization: Factorization) -> Factorization:
    """Return the factorization in the model's own value variables: a pickled step has copies."""
    named = {str(v.name): v for v in model.value_vars}
    return replace(
        factorization,
        blocks=tuple(replace(block, variable=named[block.name]) for block in factorization.blocks),
    )


def _dataset(
    model: pm.Model,
    arrays: Mapping[str, np.ndarray],
    sampled: Mapping[Any, np.ndarray],
    attrs: Mapping[str, str | float] | None = None,
    with_dims: bool = True,
) -> xr.Dataset:
    """Return arrays as a group, whose first axes have the coordinates `sampled`."""
    coords, dims = coords_and_dims_for_inferencedata(model)
    with warnings.catch_warnings():
        # Few draws may be meant.
        warnings.filterwarnings("ignore", "Found chain dimension to be longer")
        return dict_to_dataset(
            arrays,
            inference_library=pm,
            coords={**coords, **sampled},
            dims=dims if with_dims else None,
            sample_dims=list(sampled),
            attrs=attrs,
        )


def _posterior(
    model: pm.Model,
    factorization: Factorization,
    variables: tuple[Variable, ...],
    draws: Draws,
    attrs: Mapping[str, str | float],
) -> xr.Dataset:
    values = factorization.values(draws.positions)
    by_name = factorization.cut(values)
    found = {block.variable: by_name[block.name] for block in factorization.blocks}
    others = [v for v in variables if v not in found]
    flat = values_at(model, factorization, others, values.reshape(-1, values.shape[-1]))
    for variable, x in zip(others, flat, strict=True):
        found[variable] = x.reshape((*values.shape[:2], *x.shape[1:]))
    arrays = {str(v.name): found[v] for v in variables}
    names = get_default_varnames(list(arrays), include_transformed=False)
    return _dataset(model, {name: arrays[name] for name in names}, draws.coords, attrs)


def _thinned(
    model: pm.Model,
    factorization: Factorization,
    kept: Recorded,
    draws: Draws,
    attrs: Mapping[str, str | float],
) -> xr.Dataset:
    n_chains, n_draws = draws.positions.shape[:2]
    size = sum(one.bytes_per_draw for one, _ in kept.large)
    most = min(LARGE_DRAWS, LARGE_BYTES // (n_chains * size))
    every = slice(None, None, ceil(n_draws / max(1, most)))
    coords = {**draws.coords, "draw": draws.coords["draw"][every]}
    few = Draws(draws.positions[:, every], {}, coords)
    _log.info(
        "%s: kept of %d of %d draws of each chain, in the group %r of the trace.",
        ", ".join(repr(one.name) for one, _ in kept.large),
        few.positions.shape[1],
        n_draws,
        THINNED,
    )
    return _posterior(model, factorization, tuple(v for _, v in kept.large), few, attrs)
