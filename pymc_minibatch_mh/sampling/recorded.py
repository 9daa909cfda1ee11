"""Which variables of a model are kept in a trace."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.step.deterministics import LargeDeterministic, large_deterministics

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
