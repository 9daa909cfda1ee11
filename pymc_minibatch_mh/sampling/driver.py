"""Sampling outside of PyMC's loop: compiled blocks of draws, with chains as threads."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.stats.convergence import log_warning, log_warnings, run_convergence_checks
from pymc.util import get_untransformed_name, is_transformed_name

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.checks import check_flag, check_integer
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.bambi import BambiModel, is_bambi_model
from pymc_minibatch_mh.model.inputs import as_generator, resolve_model
from pymc_minibatch_mh.sampling.checkpoint import Checkpoint, FinalState
from pymc_minibatch_mh.sampling.choose import choose_step, rebuild_step
from pymc_minibatch_mh.sampling.initial_points import starting_positions
from pymc_minibatch_mh.sampling.trace import (
    Draws,
    RecordedVariables,
    bambi_trace,
    make_datatree,
    name_of_large_groups,
    recorded_variables,
)
from pymc_minibatch_mh.sampling.workers import Bars, RunSettings, Workers
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps.base import MinibatchStep, model_behind, step_of
from pymc_minibatch_mh.steps.settings import require_warm_up_for
from pymc_minibatch_mh.threads import usable_cores

_log = logging.getLogger("pymc")


def log_start(step: MinibatchStep, settings: RunSettings) -> None:
    """Log the start of a run, its step and its variables."""
    threads = min(settings.cores, settings.chains)
    _log.info(
        "Sampling %s in %s", _with_plural(settings.chains, "chain"), _with_plural(threads, "thread")
    )
    names = (str(v.name) for v in step.vars)
    shown = (get_untransformed_name(x) if is_transformed_name(x) else x for x in names)
    _log.info("%s: [%s]", type(step).__name__, ", ".join(shown))


def log_end(name: str, workers: Workers, seconds: float, interrupted: bool) -> None:
    """Log the number of draws, the time, and all warnings of the chains of the step `name`."""
    for chain in workers.chains:
        while (warning := report.next_warning(name, chain.state, chain.program)) is not None:
            log_warning(warning)
    chains, draws = workers.complete()
    if interrupted:
        _log.warning(
            "Sampling was interrupted. %s draws of each of %s are kept.",
            f"{draws:,}",
            _with_plural(len(chains), "chain"),
        )
    _log.info(
        "Sampling %s for %s tune and %s draw iterations took %s.",
        _with_plural(len(chains), "chain"),
        f"{workers.settings.tune:_d}",
        f"{draws:_d}",
        report.describe_seconds(seconds),
    )


def _with_plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def sample(
    step_or_model: MinibatchStep | pm.Model | BambiModel | int | None = None,
    draws: int = 1_000,
    *,
    tune: int = 1_000,
    chains: int | None = None,
    cores: int | None = None,
    random_seed: Any = None,
    initvals: Any = None,
    var_names: Sequence[str] | None = None,
    progressbar: bool = True,
    quiet: bool = False,
    discard_tuned_samples: bool = True,
    compute_convergence_checks: bool = True,
    effects: bool = True,
    checkpoint: str | PathLike | None = None,
    resume: xr.DataTree | str | PathLike | None = None,
    model: pm.Model | None = None,
) -> xr.DataTree:
    """Sample a model, or sample with a step, without PyMC's Python loop.

    A model is sampled by :class:`TunaMH`, whose draws are *exact*. The *approximate*
    :class:`PenaltyMH` replaces it if bounds cannot be derived, or if :class:`TunaMH` would evaluate
    more than a tenth of the observations and is forecast to be slower. A log line names the step,
    the number of observations per draw and the time for an ESS of 1,000.

    Use ``pm.sample`` if the model needs several steps. Its Python loop around a draw costs ten
    times an update. Here compiled code makes blocks of draws, chains run as threads over one copy
    of data and bounds, and transforms and deterministics are computed afterwards. With equal seeds
    and starts, ``pm.sample`` makes the same draws, to the last bit on the unconstrained scale;
    transforms and deterministics can differ by rounding. There is no ``callback=``: compiled code
    cannot stop at every draw. An interrupt keeps the draws so far, and `resume` continues the run.

    Parameters
    ----------
    step_or_model
        A model, by default the model of the context; a Bambi model, whose trace has the format of
        its ``fit``; or a step of this package that updates all variables of its model. A number is
        interpreted as `draws`.
    draws
        Draws to keep per chain.
    tune
        Draws of warm-up before them.
    chains
        Number of chains; by default as in :func:`pymc.sample`: as many as `cores`, and at least 2.
    cores
        Maximum number of chains that run at the same time, as threads; by default the number of
        usable cores, up to 4. Draws do not depend on it.
    random_seed
        Seed or generator.
    initvals
        As in :func:`pymc.sample`; by default each chain starts at a draw from the widened Gaussian
        approximation, as in :func:`overdispersed_initvals`.
    var_names
        As in :func:`pymc.sample`; not for a Bambi model. Deterministics with one value per
        observation are recorded only by name, for a few draws, in the group
        ``posterior_thinned``.
    progressbar
        Whether to show the progress of chains, with running means.
    quiet
        Whether to suppress the progress bar and log lines, as in :func:`pymc.sample`.
    discard_tuned_samples
        Whether to leave out the draws of warm-up, as in :func:`pymc.sample`.
    compute_convergence_checks
        Whether to check the chains for convergence, as :func:`pymc.sample` does.
    effects
        Whether the trace has the effects of small groups that the step integrates out, and all
        deterministics of them. Without them a draw takes microseconds; :func:`draw_effects` adds
        them to the trace later. Effects of a few large groups, which are parameters, are in it all
        the same, as ``NAME_of_large_groups``.
    checkpoint
        Folder for draws and states of chains during the run. Blocks of draws are written
        completely or not at all, so a crash loses at most the last block. A block takes a second
        of sampling, or 2% of a longer run, and at most a minute.
    resume
        Folder of `checkpoint`: the run continues in any process, up to `draws` in all. A different
        step, model or data set, or other settings of the run, raise a SettingError. Alternatively
        the last trace of this step: its chains continue without warm-up. A step remembers the final
        states of its last chains, also after pickling. Either way the draws equal those of one
        longer run, bit for bit.
    model
        The model; by default the model of the step. A pickled step requires it.

    Returns
    -------
    DataTree
        As from :func:`pymc.sample`, with the statistics of the step. After an interrupt, the draws
        so far. If `resume` is a folder, all draws of the run; if it is a trace, only the new draws,
        numbered after the last draw of that trace.

    Raises
    ------
    SettingError
        If an argument is invalid, if variables of the model need other steps, or if a file of a run
        is damaged or altered.
    NotWorthwhileError
        If NUTS is forecast to sample the model faster; names the line to type.
    UnsupportedModelError, ModeError
        If no step fits the model; names the line to type.
    StaleDataError
        If the model's data changed after the construction of the step.
    BoundViolationError
        If an observation exceeds its bound, unless the step tolerates that.

    Examples
    --------
    >>> trace = sample(model, 1_000, tune=200, chains=2, random_seed=1)
    >>> dict(trace.posterior.sizes)
    {'chain': 2, 'draw': 1000, 'beta_dim_0': 3}
    """
    asked: Any = step_or_model
    if isinstance(step_or_model, int | np.integer):
        asked, draws = None, int(step_or_model)
    settings = _run_settings(draws, tune, chains, cores)
    keeps_warm_up = not check_flag("discard_tuned_samples", discard_tuned_samples)
    if checkpoint is not None and resume is not None:
        raise SettingError(
            "checkpoint= does not go with resume=: a run that continues from a folder is written "
            "there, but one that continues from a trace is not. Leave out one of them."
        )
    of_bambi = model if asked is None else asked
    if is_bambi_model(of_bambi) and var_names is not None:
        raise SettingError(
            "var_names= does not go with a Bambi model, whose own code needs all variables to "
            "clean the trace. Leave it out, and select from the trace afterwards."
        )
    shown = check_flag("progressbar", progressbar) and not check_flag("quiet", quiet)
    given = {"chains": chains, "initvals": initvals, "random_seed": random_seed}
    with _quiet_logging(quiet):
        step, found, choice = _step_and_model(asked, model, resume, settings)
        settings, begun, folder = _prepare_chains(
            step, found, settings, keeps_warm_up, resume, given
        )
        shown_effects = check_flag("effects", effects)
        kept = _recorded(step, found, begun[0].position, var_names, effects=shown_effects)
        workers = Workers(settings, begun, keeps_warm_up, step.program.statistics)
        if folder is not None:
            folder.fill_records(workers)
        elif checkpoint is not None:
            folder = Checkpoint.create(checkpoint, step, workers)
        log_start(step, settings)
        seconds, interrupted = _run_chains(workers, folder, shown=shown)
        step.chain = workers.chains[-1]
        before = resume if isinstance(resume, xr.DataTree) else None
        tree = _make_tree(step, found, workers, kept, seconds, before)
        tree["posterior"].attrs |= choice
        log_end(type(step).__name__, workers, seconds, interrupted)
        if compute_convergence_checks:
            _log_checks(step, found, tree)
    return bambi_trace(of_bambi, tree) if is_bambi_model(of_bambi) else tree


def _log_checks(step: MinibatchStep, model: pm.Model, tree: xr.DataTree) -> None:
    """Log long stays of independent proposals, and PyMC's warnings of chains that differ."""
    if step.program.sampler.is_independent:
        report.warn_of_stays(type(step).__name__, tree)
    posterior = tree["posterior"].to_dataset()
    # Effects that are drawn anew for each draw mix as all other variables do.
    effects = {block.name for block in step.target.factorization.integrated}
    if effects.isdisjoint(posterior) or effects.issuperset(posterior):
        log_warnings(run_convergence_checks(tree, model))
        return
    others = tree.copy()
    others["posterior"] = posterior.drop_vars(effects, errors="ignore")
    log_warnings(run_convergence_checks(others, model))


def _recorded(
    step: MinibatchStep,
    model: pm.Model,
    position: np.ndarray,
    var_names: Sequence[str] | None,
    *,
    effects: bool,
) -> RecordedVariables:
    """Variables that are recorded, with shapes from a position of a chain."""
    parts = step.target.factorization
    names = [] if effects else [block.name for block in parts.integrated]
    # Effects have shapes without being drawn, which takes long for many.
    unset = {block.name: np.zeros(block.shape) for block in parts.integrated}
    point = parts.unravel(position, {}) | unset
    return recorded_variables(model, point, var_names).without(names)


def _run_chains(workers: Workers, folder: Checkpoint | None, *, shown: bool) -> tuple[float, bool]:
    """Make all draws; return the seconds of the run and whether an interrupt ended it."""
    settings, began = workers.settings, time.perf_counter()
    bars = Bars(settings.chains, settings.tune + settings.draws, shown=shown)
    if folder is None:
        interrupted = workers.run(bars)
        return time.perf_counter() - began, interrupted
    workers.keep = partial(folder.keep, workers)
    try:
        folder.lock()
        interrupted = workers.run(bars)
    finally:
        folder.close()
    if interrupted:
        _log.warning("Sampling was interrupted. Continue with resume=%r.", str(folder.folder))
    return folder.seconds + time.perf_counter() - began, interrupted


#: Default minimum and maximum numbers of chains, as in ``pm.sample``.
MIN_CHAINS, MAX_CHAINS = 2, 4


def _run_settings(draws: Any, tune: Any, chains: Any, cores: Any) -> RunSettings:
    n_cores = check_integer("cores", min(MAX_CHAINS, usable_cores()) if cores is None else cores)
    return RunSettings(
        draws=check_integer("draws", draws),
        tune=check_integer("tune", tune, 0),
        chains=check_integer("chains", max(MIN_CHAINS, n_cores) if chains is None else chains),
        cores=n_cores,
    )


def _step_and_model(
    asked: Any, model: Any, resume: Any, settings: RunSettings
) -> tuple[MinibatchStep, pm.Model, dict[str, str]]:
    """Step for sampling, its model, and trace attributes about the choice of the step."""
    if isinstance(asked, MinibatchStep | type):
        step = step_of(asked)
        found = _model_of(step, model)
        _require_alone(step)
        step.require_unchanged()
        return step, found, {}
    if not (asked is None or isinstance(asked, pm.Model) or is_bambi_model(asked)):
        raise SettingError(
            f"step_or_model={type(asked).__name__} is neither a model nor a step of this package. "
            "Pass a pm.Model, a bambi.Model or a step such as TunaMH()."
        )
    if asked is not None and model is not None:
        raise SettingError("model= goes with a step; a model was given already. Leave it out.")
    found = resolve_model(model if asked is None else asked)
    if resume is not None:
        return rebuild_step(resume, found), found, {}
    choice = choose_step(found)
    line = choice.in_words(settings.tune, min(settings.cores, settings.chains))
    _log.info("%s", line)
    told = {"step_choice": line, "step_choice_reason": choice.why_not_exact}
    return choice.step, found, {name: words for name, words in told.items() if words}


def _require_alone(step: MinibatchStep) -> None:
    if left := step.left_to_others:
        raise SettingError(
            f"{left[0]!r} is not updated by this {type(step).__name__}, but sample() runs one "
            "step only. Use pm.sample(step=...), which gives it another step."
        )


def _model_of(step: MinibatchStep, model: pm.Model | None) -> pm.Model:
    if model is None:
        return model_behind(step)
    with resolve_model(model):
        found = model_behind(step)
    if found is not model:
        raise SettingError(
            f"model= is not the model that this {type(step).__name__} was built on. Leave it out."
        )
    return found


@contextmanager
def _quiet_logging(quiet: bool) -> Iterator[None]:
    level = _log.level
    if quiet:
        _log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        _log.setLevel(level)


def _prepare_chains(
    step: MinibatchStep,
    model: pm.Model,
    settings: RunSettings,
    keeps_warm_up: bool,
    resume: Any,
    given: Mapping[str, Any],
) -> tuple[RunSettings, list[Chain], Checkpoint | None]:
    """Settings, new or resumed chains, and the folder of the run."""
    starts = {name: given[name] for name in ("initvals", "random_seed")}
    if resume is None:
        return settings, _new_chains(step, settings, **starts), None
    if not isinstance(resume, str | PathLike):
        return *_resume_from_trace(step, model, settings, resume, given), None
    folder = Checkpoint.open(resume)
    folder.require_fitting(
        step,
        {
            "tune": settings.tune,
            "chains": given["chains"],
            "discard_tuned_samples": not keeps_warm_up,
        },
    )
    settings = replace(settings, chains=folder.run["settings"]["chains"])
    if any(value is not None for value in starts.values()):
        folder.require_same_starts(_new_chains(step, settings, **starts), starts)
    chains = _continued_chains(step, folder.ends(step))
    if settings.draws < folder.most_drawn():
        raise SettingError(
            f"draws={settings.draws} are fewer than a chain of the run in {str(resume)!r} has, "
            f"{folder.most_drawn()}. Ask for as many, or for more."
        )
    return settings, chains, folder


def _new_chains(
    step: MinibatchStep, settings: RunSettings, initvals: Any, random_seed: Any
) -> list[Chain]:
    """New chains at their starting points."""
    require_warm_up_for(step.program.schedule, settings.tune)
    rng = as_generator("random_seed", random_seed)
    generators = rng.spawn(settings.chains)
    for generator in generators:
        # Seeds are derived as in pm.sample, so that equal seeds give equal draws.
        generator.integers(2**30)
    starts = starting_positions(step, initvals, settings.chains, rng)
    chains = [Chain(step.program, rng, step.adapts and settings.tune > 0) for rng in generators]
    for chain, start in zip(chains, starts, strict=True):
        chain.place(start, np.empty(0))
        step.start(chain)
    return chains


def _make_tree(
    step: MinibatchStep,
    model: pm.Model,
    workers: Workers,
    kept: RecordedVariables,
    seconds: float,
    before: xr.DataTree | None,
) -> xr.DataTree:
    """Trace of all draws; KeyboardInterrupt if an interrupt came before the first draw."""
    (chains, draws), settings = workers.complete(), workers.settings
    if not draws:
        raise KeyboardInterrupt
    tuned = None if workers.warm_up is None else workers.warm_up.of(chains, settings.tune)
    made = _number_after(workers.kept.of(chains, draws), before)
    first = int(made.coords["draw"][0])
    partly = {} if kept.effects else _effects_of_large_groups(step, made.positions)
    drawn = kept.depend_on([block.name for block in step.target.factorization.integrated])
    tree = make_datatree(
        model,
        partial(step.plan.whole_draws, first=first) if drawn else step.plan.own_draws,
        kept,
        made,
        {"sampling_time": seconds, "tuning_steps": settings.tune, **_step_attributes(step)},
        warm_up=tuned,
    )
    for name, values in partly.items():
        dims = "chain", "draw", f"{name}_dim_0"
        tree["posterior"][name] = xr.DataArray(values, dims=dims)
    # Statistics are interpreted per update, so the trace needs the updates per draw.
    tree["posterior"].attrs["updates_per_draw"] = step.updates_per_draw
    if step.target.source.stamp:
        # The trace does not contain stored observations: a digest identifies them.
        tree["posterior"].attrs["observations"] = step.target.source.stamp
    _remember_ends(step, [workers.chains[k] for k in chains], tree)
    return tree


def _effects_of_large_groups(step: MinibatchStep, positions: np.ndarray) -> dict[str, np.ndarray]:
    """Effects that are parameters while others are integrated out, shapes (chains, draws, n)."""
    factorization = step.target.factorization
    blocks = [b for b in factorization.blocks if b.entries is not None]
    values = factorization.values(positions) if blocks else positions
    return {name_of_large_groups(b): values[..., b.start : b.stop].copy() for b in blocks}


def _step_attributes(step: MinibatchStep) -> dict[str, str | float]:
    """Attributes of a trace about the step that drew it."""
    return {
        "step_library": "pymc_minibatch_mh",
        "step_library_version": version("pymc-minibatch-mh"),
        "step": type(step).__name__,
        "step_settings": step.settings,
        "step_guarantee": str(step.guarantee),
        "preparation_time": step.seconds,
    }


def _remember_ends(step: MinibatchStep, chains: Sequence[Chain], tree: xr.DataTree) -> None:
    """Keep the final states of chains in their step, and their digest in the trace."""
    copies = [chain.copy() for chain in chains]
    stamp = sha256(b"".join(chain.position.tobytes() for chain in copies)).hexdigest()[:16]
    step.ended = stamp, [(chain.state, chain.position, chain.rng) for chain in copies]
    tree["posterior"].attrs["ends"] = stamp


def _resume_from_trace(
    step: MinibatchStep,
    model: pm.Model,
    settings: RunSettings,
    trace: Any,
    given: Mapping[str, Any],
) -> tuple[RunSettings, list[Chain]]:
    """Chains that continue from the last trace of a step, and settings without warm-up.

    SettingError for another trace, or for settings in `given` that apply to new chains only.
    """
    for name, value in given.items():
        if value is not None:
            raise SettingError(
                f"{name}= does not go with resume=, because its chains continue as they are. "
                "Leave it out."
            )
    _require_last(step, model, trace)
    chains = _continued_chains(step, step.ended[1])
    return replace(settings, chains=len(chains), tune=0), chains


def _continued_chains(step: MinibatchStep, ends: Sequence[FinalState]) -> list[Chain]:
    """Chains that continue from final states; chains with equal centres share their bounds."""
    chains: list[Chain] = []
    programs = {step.plan.reference.centre.tobytes(): step.program}
    for state, position, rng in ends:
        around = state.reference.centre.tobytes()
        chain = Chain(programs.get(around, step.program), rng, adapting=False)
        chain.state = state
        programs[around] = chain.program
        chain.place(position, np.empty(0))
        # The remembered states stay unchanged: chains may continue from them again.
        chains.append(chain.copy())
    return chains


def _require_last(step: MinibatchStep, model: pm.Model, trace: Any) -> None:
    name = type(step).__name__
    if not isinstance(trace, xr.DataTree) or "posterior" not in trace.children:
        raise SettingError(
            f"resume={type(trace).__name__} is neither a trace nor a path. Pass a trace of "
            "sample(step), or the folder of checkpoint=."
        )
    posterior = trace["posterior"]
    drew = posterior.attrs.get("step", "no step of sample()")
    if drew != name:
        raise SettingError(
            f"resume= is a trace of {drew}, not of this {name}. Pass the step that sampled it."
        )
    others = [str(x) for x in posterior.data_vars if x not in model.named_vars]
    if others:
        raise SettingError(
            f"resume= has {others[0]!r}, which is not a variable of this model. Pass the step "
            "that sampled it."
        )
    if posterior.attrs.get("ends") != step.ended[0]:
        raise SettingError(
            f"resume= is not the last trace of this {name}, and a step remembers only where its "
            "last chains ended. Pass that trace, or the last draws as initvals=."
        )


def _number_after(draws: Draws, before: xr.DataTree | None) -> Draws:
    """Draws numbered after those of the previous trace, with its chain numbers."""
    if before is None:
        return draws
    posterior, own = before["posterior"], draws.coords
    first = int(posterior["draw"].to_numpy()[-1]) + 1
    chains = posterior["chain"].to_numpy()[own["chain"]]
    return replace(draws, coords={"chain": chains, "draw": own["draw"] + first})
