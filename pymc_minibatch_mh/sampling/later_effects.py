"""Effects and log-likelihoods of small groups, added to a trace."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
import xarray as xr

from pymc_minibatch_mh.checks import check_integer
from pymc_minibatch_mh.diagnostics.draws import (
    in_model_order,
    require_trace,
    track_progress,
    transformed_draws,
)
from pymc_minibatch_mh.diagnostics.predictive import label_rows
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.sampling.trace import effects_dataset, name_of_large_groups
from pymc_minibatch_mh.steps.base import MinibatchStep, model_behind, step_of

#: Number of draws between two reports of progress.
DRAWS_AT_ONCE = 20
#: Maximum number of effects that are drawn at a time.
EFFECTS_AT_ONCE = 5_000_000


def draw_effects(
    data: xr.DataTree,
    step: MinibatchStep,
    *,
    groups: Sequence[int] | None = None,
    model: pm.Model | None = None,
) -> xr.DataTree:
    """Add draws of the effects of small groups to a trace that lacks them.

    Guarantee: *exact* given the other parameters, up to the error of the nodes, which the step
    states. Each draw of the trace gets one independent draw of all effects.

    Parameters
    ----------
    data
        Trace of this step, for example of ``sample(step, effects=False)``, with all other
        parameters; it stays as it is. Thin it first, as in ``data.isel(draw=slice(None, None,
        10))``, if fewer draws of the effects are enough.
    step
        The step, which integrates effects out.
    groups
        Numbers of some groups, ascending, to keep the effects of these alone. By default all
        effects, and all deterministics of them.
    model
        The model; by default the model of the step.

    Returns
    -------
    DataTree
        Copy of the trace whose posterior has the effects under their own names, of shape (chain,
        draw, groups).

    Raises
    ------
    SettingError
        If the step integrates nothing out, if the trace lacks a parameter, or if a group does not
        exist.

    Examples
    --------
    >>> shared = sample(step, 10_000, effects=False)
    >>> few = shared.isel(draw=slice(None, None, 20))
    >>> trace = draw_effects(few, step, groups=[0, 7])
    """
    plan, blocks = step_of(step).plan, _integrated_effects(step)
    numbers = None
    if groups is not None:
        numbers = [check_integer("groups", k, 0) for k in groups]
        if max(numbers, default=0) >= plan.n_rows:
            raise SettingError(f"groups= has {max(numbers)}, but groups end at {plan.n_rows - 1}.")
    model = model_behind(step) if model is None else model
    positions = _positions_of(data, model, step)
    partly = [name_of_large_groups(block) for block in step_of(step).target.factorization.blocks]
    posterior, parts = data["posterior"].to_dataset().drop_vars(partly, errors="ignore"), []
    # At most this many effects, of which there may be millions, are in memory at a time.
    n_effects = sum(block.stop - block.start for block in blocks)
    each = max(1, min(DRAWS_AT_ONCE, EFFECTS_AT_ONCE // (len(positions) * n_effects)))
    for k in track_progress("Drawing effects", list(range(0, positions.shape[1], each))):
        some = slice(k, k + each)
        draws = plan.whole_draws(positions[:, some], k, numbers)
        lacking = posterior.isel(draw=some)
        parts.append(
            effects_dataset(model, draws.factorization, draws.values, lacking, blocks, numbers)
        )
    added = xr.concat(parts, "draw", data_vars="minimal", coords="minimal", compat="override")
    copy = data.copy()
    copy["posterior"] = xr.DataTree(posterior.merge(added))
    return copy


def group_log_likelihood(
    data: xr.DataTree, step: MinibatchStep, *, model: pm.Model | None = None
) -> xr.DataTree:
    """Add the log-likelihood of each small group to a trace, with its effects integrated out.

    ArviZ's ``loo`` then leaves a group out with all of its observations, and predicts it from the
    other parameters alone: ``log_likelihood`` of single observations given their group's effect
    says little about new groups. Guarantee: *exact* up to the error of the nodes, which the step
    states.

    Parameters
    ----------
    data
        Trace of this step, with or without effects; it stays as it is. All groups are evaluated at
        each of its draws. Effects of large groups, which are parameters, are integrated out here.
    step
        The step, which integrates effects out.
    model
        The model; by default the model of the step.

    Returns
    -------
    DataTree
        Copy of the trace whose group ``log_likelihood`` has one variable, of shape (chain, draw,
        groups), with the name and the dimension of the effects.

    Raises
    ------
    SettingError
        If the step integrates nothing out, or if the trace lacks a parameter.

    Examples
    --------
    >>> shared = sample(step, 1_000, effects=False)
    >>> tree = group_log_likelihood(shared, step)  # for az.loo(tree)
    """
    plan, (block, *_) = step_of(step).plan, _integrated_effects(step)
    model = model_behind(step) if model is None else model
    positions = _positions_of(data, model, step)
    numbers = list(np.ndindex(positions.shape[:2]))
    lines = [
        plan.values_at(positions[number]) for number in track_progress("Evaluating draws", numbers)
    ]
    values = np.array(lines).reshape(*positions.shape[:2], -1)
    name, posterior = str(block.variable.name), data["posterior"].to_dataset()
    rows = np.arange(values.shape[-1])
    copy = data.copy()
    copy["log_likelihood"] = xr.DataTree(label_rows(values, rows, model, name, posterior))
    return copy


def _integrated_effects(step: MinibatchStep) -> tuple[Block, ...]:
    """Effects that a step integrates out."""
    integrated = step_of(step).plan.target.factorization.integrated
    if not integrated:
        raise SettingError(
            f"step={type(step).__name__} integrates no effects out, so its traces have all of "
            "them. Leave this call out."
        )
    return integrated


def _positions_of(data: xr.DataTree, model: pm.Model, step: MinibatchStep) -> np.ndarray:
    """Positions of a step at the draws of a trace, shape (chains, draws, d)."""
    factorization = step.target.factorization
    posterior = require_trace(data)["posterior"].to_dataset()
    draws, partly = {}, {}
    for block in factorization.blocks:
        name = name_of_large_groups(block)
        if block.entries is not None and name in posterior.data_vars:
            partly[block.name] = posterior[name].transpose("chain", "draw", ...).to_numpy()
    for rv in model.free_RVs:
        name, value = str(rv.name), model.rvs_to_values[rv]
        if name in factorization.natural and value.name not in partly:
            if name not in posterior.data_vars:
                raise SettingError(
                    f"{name!r} is not in the trace. Sample without var_names=, with effects=False."
                )
            draws[name] = in_model_order(posterior[name], model)
    values = transformed_draws(draws, model)
    lines = [
        partly[block.name] if block.name in partly else block.flat(values[block.name])
        for block in factorization.blocks
    ]
    return factorization.positions(np.concatenate(lines, axis=-1))
