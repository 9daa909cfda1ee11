"""The trace of chains that were sampled outside of PyMC's loop, as ``pm.sample`` returns it.

What is kept of each draw is its unconstrained position and its statistics. Variables are computed
from positions afterwards, and PyMC's own converter makes the groups, dims and coordinates.
"""

import logging
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import pymc as pm
import xarray as xr
from pymc.backends.arviz import DataTreeConverter
from pymc.backends.base import MultiTrace
from pymc.backends.ndarray import NDArray
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.likelihood.split import Split
from pymc_minibatch_mh.sampling.evaluation import values_at
from pymc_minibatch_mh.steps.report import LargeDeterministic, large_deterministics

_log = logging.getLogger("pymc")


@dataclass(frozen=True, eq=False)
class Recorded:
    """The variables that are kept.

    Parameters
    ----------
    variables
        Those of every draw: graphs in the value variables, in PyMC's order. PyMC leaves the
        unconstrained ones out of the tree.
    large
        Deterministics that are kept of few draws, each with its graph; they are large and named.
    """

    variables: tuple[Variable, ...]
    large: tuple[tuple[LargeDeterministic, Variable], ...]


def recorded(
    model: pm.Model, point: Mapping[str, np.ndarray], var_names: Sequence[str] | None = None
) -> Recorded:
    """Choose what is kept, before anything is sampled.

    Parameters
    ----------
    model
        The model.
    point
        Values of the value variables, on which shapes may depend.
    var_names
        As in :func:`pymc.sample`: names of free variables and deterministics, in any order. By
        default all of them but the large deterministics, of which a message tells at level INFO of
        the logger ``pymc``.

    Returns
    -------
    Recorded

    Raises
    ------
    SettingError
        If `var_names` has a name that is no free variable or deterministic, has one twice, has
        none, or has none but those of large deterministics.
    """
    chosen = _chosen(model, var_names)
    named = {str(v.name) for v in chosen}
    known = {str(v.name) for v in model.deterministics} - named
    large = {one.name: one for one in large_deterministics(model, point, known)}
    if var_names is None:
        _tell_of(large.values())
        kept = [v for v in model.unobserved_value_vars if str(v.name) not in large]
        return Recorded(tuple(kept), ())
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


def _tell_of(left_out: Iterable[LargeDeterministic]) -> None:
    priced = "; ".join(f"{one.name!r}, {one.priced}" for one in left_out)
    if priced:
        _log.info(
            "Large deterministics are left out of the trace. 1,000 draws of a chain would be: %s. "
            "Name one in var_names= to keep it of a few draws of each chain.",
            priced,
        )


#: Draws of each chain of which large deterministics are kept, and bytes that they may take.
LARGE_DRAWS, LARGE_BYTES = 100, 2**30
#: The group of large deterministics.
THINNED = "posterior_thinned"


@dataclass(frozen=True, eq=False)
class Draws:
    """What chains have left behind, after warm-up or during it.

    Parameters
    ----------
    positions : ndarray, shape (chains, draws, d)
        Unconstrained values, in the order of :attr:`Split.position`.
    stats
        Name -> array of shape (chains, draws), one of objects for ``"warning"``.
    numbers : ndarray, shape (draws,), optional
        Numbers of the draws that thinning has left; by default 0, 1, 2 and so on.
    """

    positions: np.ndarray
    stats: Mapping[str, np.ndarray]
    numbers: np.ndarray | None = None


@dataclass(frozen=True)
class Duration:
    """How long chains were sampled; attributes of the trace.

    Parameters
    ----------
    sampling_time
        Seconds that sampling took, warm-up included.
    tuning_steps
        Draws of the warm-up of each chain, before thinning.
    """

    sampling_time: float
    tuning_steps: int


def datatree_of(
    model: pm.Model,
    split: Split,
    kept: Recorded,
    draws: Draws,
    duration: Duration,
    *,
    warm_up: Draws | None = None,
    keep_warning_stat: bool = False,
    large_draws: int | None = None,
) -> xr.DataTree:
    """Return the tree that ``pm.sample`` returns for the same draws.

    Groups, dims, coordinates, dtypes, attributes and the order of variables are PyMC's. A draw has
    its number as coordinate ``draw``, as after ``trace.sel(draw=slice(None, None, thin))``.

    Large deterministics cannot lie in the group ``posterior`` unless all of it is thinned: what
    shares the dimension ``draw`` has all of its draws. Those of `kept` have the group
    ``posterior_thinned`` with the same dimensions, whose coordinate ``draw`` holds numbers of draws
    that are in ``posterior`` as well. ``trace.posterior.sel(draw=trace.posterior_thinned.draw)``
    is what belongs to them, and functions of ArviZ take ``group="posterior_thinned"``. The draws
    are evenly spaced, every k-th of those in ``posterior`` from the first: as few as leave each
    chain no more than 100, and all variables of the group together no more than 1 GiB, twice of
    which is taken while the tree is made. Neighbours in a chain say much the same, and 400 draws
    tell a mean to a twentieth of a standard deviation.

    Parameters
    ----------
    model
        The model, all of whose variables are in the position.
    split
        Tells the order of the position.
    kept
        The variables, from :func:`~pymc_minibatch_mh.sampling.trace.recorded`.
    draws
        Draws after warm-up.
    duration
        Time and length of sampling.
    warm_up
        Draws of warm-up, for the groups ``warmup_posterior`` and ``warmup_sample_stats``. Large
        deterministics are not computed for them.
    keep_warning_stat
        Whether the statistic ``warning`` is kept, which cannot be written to a file.
    large_draws
        Draws of each chain at most for large deterministics, 1 or more, instead of what the rule
        above says. Every k-th draw is kept, so that there can be fewer.

    Returns
    -------
    DataTree
    """
    split = _in_variables_of(model, split)
    parts = {"": draws} if warm_up is None else {"warmup_": warm_up, "": draws}
    values = {k: _values(model, split, kept.variables, x.positions) for k, x in parts.items()}
    stats = {k: _stats(x, keep_warning_stat) for k, x in parts.items()}
    tree = _of_first_draws(model, kept.variables, values, stats, duration)
    if kept.large:
        tree[THINNED] = _thinned(model, split, kept, draws, duration, large_draws)
    for prefix, part in parts.items():
        for group, arrays in (("posterior", values[prefix]), ("sample_stats", stats[prefix])):
            if prefix + group in tree:
                tree[prefix + group] = _filled(tree[prefix + group].to_dataset(), arrays, part)
    return tree


def _of_first_draws(
    model: pm.Model,
    variables: tuple[Variable, ...],
    values: Mapping[str, Mapping[str, np.ndarray]],
    stats: Mapping[str, Mapping[str, np.ndarray]],
    duration: Duration,
) -> xr.DataTree:
    """Return what PyMC makes of the first draw of each phase.

    Its converter would copy all draws several times, which takes as long as to make them.
    """

    def first(parts: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return _joined([{name: x[:, :1] for name, x in part.items()} for part in parts.values()])

    trace = _multitrace(model, variables, first(values), first(stats), duration)
    trace.report._n_draws = next(iter(values[""].values()))[:, :1].shape[1]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found chain dimension to be longer")
        return pm.to_inference_data(trace, model=model, save_warmup="warmup_" in values)


def _in_variables_of(model: pm.Model, split: Split) -> Split:
    """Return what says where the model's own value variables lie: a pickled step has copies."""
    named = {str(v.name): v for v in model.value_vars}
    return replace(
        split, blocks=tuple(replace(block, variable=named[block.name]) for block in split.blocks)
    )


def _filled(first: xr.Dataset, arrays: Mapping[str, np.ndarray], part: Draws) -> xr.DataTree:
    """Return all draws in the place of the first, under their numbers."""
    numbers = np.arange(part.positions.shape[1]) if part.numbers is None else part.numbers
    others = {name: x for name, x in first.coords.items() if name != "draw"}
    data = {}
    for name, x in first.data_vars.items():
        values = arrays[str(name)].astype(x.dtype, copy=False)
        # PyMC gives warnings, which are no numbers, an axis of length 1.
        data[name] = x.dims, values.reshape(*values.shape[:2], *x.shape[2:]), x.attrs
    return xr.DataTree(xr.Dataset(data, {**others, "draw": numbers}, first.attrs))


def _values(
    model: pm.Model, split: Split, variables: tuple[Variable, ...], positions: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the values of variables by name, shape (chains, draws, *shape of the variable)."""
    leading = positions.shape[:2]
    draws = split.values(positions)
    by_name = split.cut(draws)
    own = {block.variable: by_name[block.name] for block in split.blocks}
    others = [v for v in variables if v not in own]
    flat = values_at(model, split, others, draws.reshape(-1, draws.shape[-1]))
    own |= {v: x.reshape((*leading, *x.shape[1:])) for v, x in zip(others, flat, strict=True)}
    return {str(v.name): own[v] for v in variables}


def _stats(draws: Draws, keep_warning_stat: bool) -> dict[str, np.ndarray]:
    return {k: x for k, x in draws.stats.items() if keep_warning_stat or k != "warning"}


def _joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


def _multitrace(
    model: pm.Model,
    variables: tuple[Variable, ...],
    values: Mapping[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    duration: Duration,
) -> MultiTrace:
    """Return a trace of PyMC's over arrays that are there already."""
    known = {
        "fn": _never,
        "var_shapes": {name: x.shape[2:] for name, x in values.items()},
        "var_dtypes": {name: x.dtype for name, x in values.items()},
    }
    chains = []
    n_chains, n_draws = next(iter(values.values())).shape[:2]
    for chain in range(n_chains):
        trace = NDArray(model=model, vars=variables, **known)
        trace.setup(n_draws, chain, [{name: x.dtype for name, x in stats.items()}])
        trace.samples = {name: x[chain] for name, x in values.items()}
        trace._stats = [{name: x[chain] for name, x in stats.items()}]
        trace.draw_idx = n_draws
        chains.append(trace)
    trace = MultiTrace(chains)
    trace.report._n_tune = duration.tuning_steps
    trace.report._t_sampling = duration.sampling_time
    return trace


def _never(*_: object) -> None:
    raise AssertionError("nothing is recorded in a trace that is full")


def _numbered(data: xr.Dataset, numbers: np.ndarray) -> xr.DataTree:
    return xr.DataTree(data.assign_coords(draw=numbers))


def _thinned(
    model: pm.Model,
    split: Split,
    kept: Recorded,
    draws: Draws,
    duration: Duration,
    large_draws: int | None,
) -> xr.DataTree:
    n_chains, n_draws = draws.positions.shape[:2]
    size = sum(one.bytes_per_draw for one, _ in kept.large)
    most = large_draws or min(LARGE_DRAWS, LARGE_BYTES // (n_chains * size))
    every = slice(None, None, ceil(n_draws / max(1, most)))
    variables = tuple(v for _, v in kept.large)
    values = _values(model, split, variables, draws.positions[:, every])
    trace = _multitrace(model, variables, values, {}, duration)
    trace.report._n_draws = len(range(n_draws)[every])
    converter = DataTreeConverter(trace=trace, model=model, save_warmup=False)
    with warnings.catch_warnings():
        # Few draws are meant.
        warnings.filterwarnings("ignore", "Found chain dimension to be longer")
        group = converter.posterior_to_xarray()["posterior"]
    numbers = np.arange(n_draws) if draws.numbers is None else draws.numbers
    _log.info(
        "%s: kept of %d of %d draws of each chain, in the group %r of the trace.",
        ", ".join(repr(one.name) for one, _ in kept.large),
        trace.report._n_draws,
        n_draws,
        THINNED,
    )
    return _numbered(group, numbers[every])
