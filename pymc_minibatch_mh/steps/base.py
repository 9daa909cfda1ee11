"""Base class of all step methods for ``pm.sample``."""

import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from functools import cached_property
from html import escape
from inspect import Signature
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
import pymc as pm
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.step_methods.state import WithSamplingState, dataclass_state
from scipy.special import chdtri

from pymc_minibatch_mh import progress
from pymc_minibatch_mh.bounds.block_tables import AnyTables
from pymc_minibatch_mh.bounds.row_pass import BOUNDING
from pymc_minibatch_mh.chain.chain import Chain, set_to_point
from pymc_minibatch_mh.chain.chain import point_at as position_as_point
from pymc_minibatch_mh.chain.program import SamplerSpec
from pymc_minibatch_mh.chain.starts import NEW_START, check_start
from pymc_minibatch_mh.chain.state import ChainState
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.inputs import resolve_model
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.statistics import STATS
from pymc_minibatch_mh.plan.file import write
from pymc_minibatch_mh.plan.identity import WatchedModel, first_difference, key_of
from pymc_minibatch_mh.plan.method import Guarantee, Method
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.plan.prepare import SharedModel, read_model
from pymc_minibatch_mh.proposals.base import Proposal
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.samplers.base import Sampler
from pymc_minibatch_mh.samplers.componentwise import componentwise_sampler
from pymc_minibatch_mh.samplers.metropolis import Metropolis
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps.many_rows import try_bounds, warn_of_many_rows
from pymc_minibatch_mh.steps.settings import (
    SharedSettings,
    docstring_of,
    require_warm_up_for,
    signature_of,
    step_variables,
)

#: Attributes that tab completion shows.
FOR_USERS = (
    "exactness", "guarantee", "name", "plan", "rng", "sampling_state", "save", "seconds",
    "settings", "step", "stop_tuning", "temperature", "tune", "updates_per_draw", "vars",
)  # fmt: skip
#: Parts of a key that are readable text; the others are digests.
IN_WORDS = ("method", "taylor_order", "temperature")


@dataclass_state
class MinibatchState(StepMethodState):
    """Complete state of a running chain, with the key of its step."""

    chain_state: ChainState
    updates_per_draw: int = field(metadata={"frozen": True})
    key: dict[str, str] = field(metadata={"frozen": True})


def key_difference(given: dict[str, str], own: dict[str, str]) -> str:
    """First difference between two keys of steps, in words; empty for equal keys."""
    what = first_difference(given, own)
    return f"{what} ({given.get(what)}, not {own.get(what)})" if what in IN_WORDS else what


def require_fitting(state: Any, own: MinibatchState) -> None:
    """Raise SettingError if a state belongs to another step; it names the difference."""
    if not isinstance(state, MinibatchState):
        raise SettingError(
            f"sampling_state={type(state).__name__} is not a state of this step. Give one from "
            "step.sampling_state."
        )
    if state.updates_per_draw != own.updates_per_draw:
        raise SettingError(
            f"updates_per_draw={own.updates_per_draw} differs from {state.updates_per_draw} in "
            "the sampling state. Build the step with the settings of that state."
        )
    what = key_difference(state.key, own.key)
    if what:
        raise SettingError(
            f"sampling_state= is from a step that differs in {what}. Build the step with the "
            "settings of that state."
        )
    shapes, new_shapes = own.chain_state.shapes(), state.chain_state.shapes()
    wrong = [name for name in shapes if new_shapes[name] != shapes[name]]
    if wrong:
        raise SettingError(
            f"sampling_state= has {wrong[0]!r} of shape {new_shapes[wrong[0]]} instead of "
            f"{shapes[wrong[0]]}, so it belongs to another model, method or proposal. Build the "
            "step with the settings of that state."
        )


#: All statistics of steps, as PyMC declares them; an instance has a subset.
DECLARED: dict[str, tuple[type, list | None]] = {
    **{name: (one.dtype, []) for name, one in STATS.items()},
    "warning": (SamplerWarning, None),
}


def declare_statistics(names: Iterable[str]) -> dict[str, tuple[type, list | None]]:
    """PyMC declarations of a step's statistics and warnings."""
    return {name: DECLARED[name] for name in (*names, "warning")}


#: Tail probability of a Gaussian posterior beyond which PyMC's start is replaced.
FAR_TAIL = 1e-12


#: First and last stage of preparation, as the progress display names them.
READING, UPDATES = "Reading the model", "Preparing updates"


class MinibatchStep(BlockedStep):
    """Base of the step methods that subsample the likelihood.

    A subclass names its method and checks its settings; it holds no algorithm.

    Raises
    ------
    UnsupportedModelError
        If the observations of a likelihood cannot be proven to be independent.
    ModeError
        If the posterior has no mode with a Gaussian scale.
    SettingError
        If a setting is invalid.
    """

    default_blocked = True
    stats_dtypes_shapes = DECLARED
    _state_class = MinibatchState

    __signature__: ClassVar[Signature]

    #: Current chain.
    chain: Chain
    _watched: WatchedModel
    _default_start: np.ndarray
    #: Seconds of preparation.
    seconds: float
    #: Description of settings that differ from the defaults; and the method's settings for the key.
    settings: str
    _method_key: str
    #: Digest of the end positions, and end states, of resumable chains of ``sample``.
    ended: tuple[str, Sequence[tuple[ChainState, np.ndarray, np.random.Generator]]] = "", ()
    #: Whether chains adapt in warm-up; PyMC writes to `tune` while it samples.
    adapts: bool

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Replace a missing `model` by the context's model, before PyMC reads the argument."""
        settings["model"] = resolve_model(settings.get("model"))
        return super().__new__(cls, *args, **settings)

    def __init_subclass__(cls, **options: Any) -> None:
        """Show all settings in signature and docstring."""
        super().__init_subclass__(**options)
        cls.__signature__ = signature_of(cls.__init__)
        record = getattr(cls.__dict__.get("__init__"), "record", None)
        if cls.__doc__ and record is not None:
            cls.__doc__ = docstring_of(cls, record)

    def __dir__(self) -> list[str]:
        """Attributes for completion, without the internals of PyMC and the package."""
        hidden = [name for name in super().__dir__() if name.startswith("_")]
        return [*hidden, *FOR_USERS]

    def __repr__(self) -> str:
        """Short text such as "TunaMH(3 parameters, 10,000 observations of 'y', ...)"."""
        return f"{type(self).__name__}({', '.join(self._summary_facts())})"

    def _repr_html_(self) -> str:
        """HTML list for notebooks with the short text, the settings and the time of preparation."""
        facts = [*self._summary_facts(), f"prepared in {report.describe_seconds(self.seconds)}"]
        if self.settings:
            facts.append(f"settings: {self.settings}")
        items = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
        return f"<b>{type(self).__name__}</b><ul>{items}</ul>"

    def _summary_facts(self) -> list[str]:
        size = self.target.factorization.size - self.plan.reference.first
        facts = [
            f"{size} parameter{'s' * (size != 1)}",
            report.describe_rows(self.target),
            self.guarantee.promise.value,
            f"order {self.plan.reference.order}",
        ]
        facts += [self.plan.integrated] * bool(self.plan.integrated)
        if self.program.schedule:
            facts.append(
                "temperatures " + ", ".join(f"{k:g} from {n}" for n, k in self.program.schedule)
            )
        elif self.temperature != 1.0:
            facts.append(f"temperature {self.temperature:g}")
        return facts

    @progress.show_progress(READING)
    def _prepare(self, settings: SharedSettings, method: Method) -> None:
        """Read the model, prepare a plan with full-data evaluations, and create a chain."""
        began, name, needs = time.perf_counter(), type(self).__name__, method.requirements
        progress.number_parts(READING, *[BOUNDING] * needs.derives_bounds, UPDATES)
        model = resolve_model(settings.model)
        self.vars = step_variables(model, settings.vars)
        point = settings.point_of(model)
        linear = settings.linear_for(method)

        def trial(read: SharedModel) -> None:
            report.warn_of_rotations(name, settings.target_of(read, point), point)
            try_bounds(name, settings.trial_target(method, point, read), point)

        read = read_model(model, self.vars, point, settings, needs, linear=linear, try_bounds=trial)
        target = settings.target_of(read, point)
        report.log_preparation(name, target, model, point, settings.model)
        start, moves = target.factorization.ravel(point), settings.moves_for(method, target)
        plan = read.plan_for(target, needs, model, start, settings.prepared, moves=moves)
        progress.report_stage(UPDATES)
        self._watched = read.watched
        usual = point if settings.initial_point is None else model.initial_point()
        self._default_start = plan.target.factorization.ravel(usual)
        self._make_chain(plan, method, settings)
        self.seconds = time.perf_counter() - began
        report.log_prepared_plan(name, plan, self.seconds, self._leaves_default_start)
        warn_of_many_rows(name, self.program)
        report.warn_of_tails(name, self.program)
        report.warn_of_jumps(name, self.program)

    def _make_chain(self, plan: Plan, method: Method, settings: SharedSettings) -> None:
        """Create program and first chain of a plan; SettingError if subsampling gains nothing."""
        self.settings, self._method_key = settings.describe(), settings.key
        self.tune = self.adapts = settings.tune
        method = replace(method, full_pass_above=settings.row_limit)
        sampler = self.sampler_of(plan, method, settings.used_proposal)
        run = settings.updates_per_draw, settings.schedule, settings.slice_moves
        self.program = SamplerSpec(plan, sampler, *run)
        self.chain = Chain(self.program, settings.rng, self.adapts)
        self.chain.handle_violation(plan.violation or "")
        method.require_subsampling(plan)
        self.chain.kernel_state()

    @staticmethod
    def sampler_of(plan: Plan, method: Method, proposal: Proposal) -> Sampler:
        """Sampler of a plan: componentwise if effects are accepted one at a time."""
        if plan.blocks is None:
            return Metropolis(method, proposal)
        return componentwise_sampler(method, plan.blocks)

    def save(self, path: str | PathLike) -> None:
        """Write mode, sums and bounds to a file, for ``prepared=`` of a later step.

        The file holds arrays and text and is read without pickle. Its key has digests of all
        observations, of the model's graphs and of this package's sources, and it stores digests of
        its arrays. A step on another model or other data rejects the file, and so does any step if
        the file was altered. Custom bounds stay marked as custom; bounds with a metric are left
        out, with a warning.

        Parameters
        ----------
        path
            The file; it is overwritten.
        """
        self.require_unchanged()
        write(path, self.plan)

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the step in PyMC's messages."""

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of the method for its draws."""
        return self.program.method.guarantee

    @property
    def exactness(self) -> str:
        """Guarantee for the draws of the chain, in words."""
        return self.chain.exactness

    @property
    def program(self) -> SamplerSpec:
        """Plan, sampler and compiled functions that all chains of this step share."""
        return self._program

    @program.setter
    def program(self, program: SamplerSpec) -> None:
        self._program = program
        # PyMC allocates arrays by these attributes, which its constructor copied from the class.
        self.stats_dtypes_shapes = declare_statistics(program.statistics)
        self.stats_dtypes = [{name: one for name, (one, _) in self.stats_dtypes_shapes.items()}]

    @property
    def plan(self) -> Plan:
        """Prepared model, from full-data evaluations before any chain."""
        return self.program.plan

    @property
    def target(self) -> Target:
        """Posterior of the model, with observations that can be evaluated separately."""
        return self.plan.target

    @property
    def reference(self) -> Reference:
        """Control variates of the chain."""
        return self.chain.plan.reference

    @property
    def tables(self) -> AnyTables | None:
        """Bounds of all observations; None for methods without bounds."""
        return self.plan.tables

    @property
    def left_to_others(self) -> tuple[str, ...]:
        """Names of the value variables that other steps update."""
        factorization = self.target.factorization
        expanded = [block for block in factorization.blocks if block.stop <= factorization.first]
        return tuple(block.name for block in (*expanded, *factorization.others))

    @property
    def temperature(self) -> float:
        """Temperature K of the log-likelihood; the last temperature of a schedule."""
        return 1.0 / self.plan.reference.inverse_temperature

    @property
    def updates_per_draw(self) -> int:
        """Number of updates between two draws."""
        return self.program.updates_per_draw

    @property
    def rng(self) -> np.random.Generator:
        """Random generator of the chain."""
        return self.chain.rng

    @rng.setter
    def rng(self, rng: np.random.Generator) -> None:
        self.chain.rng = rng

    @property
    def chain_state(self) -> ChainState:
        """State of the chain apart from position and generator."""
        return self.chain.state

    @chain_state.setter
    def chain_state(self, state: ChainState) -> None:
        self.chain.state = state

    @cached_property
    def key(self) -> dict[str, str]:
        """Key that a saved chain state has to match: step, model and data, equal in every process.

        Name -> digest or text, for the method and its settings, bounds, proposal, the order of the
        control variates, the temperature, the model and the data.
        """
        # The key is computed now, so the data must still be the ones that the step was built on.
        self.require_unchanged()
        tables = self.program.plan.bounds
        method = {
            "method": type(self).__name__,
            "the settings of its test": self._method_key,
            **self.program.sampler.key,
            "full_pass_above": str(self.program.method.full_pass_above),
            "its bounds": "none" if tables is None else tables.key,
            "moves_without_rows": str(self.program.moves_without_rows),
        }
        schedule = self.program.schedule
        annealed = {"temperature": repr(list(schedule))} if schedule else {}
        return method | key_of(self.target) | annealed

    @property
    def sampling_state(self) -> MinibatchState:
        """State of the chain, with the key of its step.

        Raises
        ------
        SettingError
            If the assigned state belongs to another method, settings, model or data; names the
            difference.
        StaleDataError
            If this step's data changed after it was built.
        """
        return WithSamplingState.sampling_state.fget(self)

    @sampling_state.setter
    def sampling_state(self, state: MinibatchState) -> None:
        self.require_unchanged()
        require_fitting(state, self.sampling_state)
        WithSamplingState.sampling_state.fset(self, state)

    def require_unchanged(self) -> None:
        """Raise StaleDataError, with their names, if the model or the data have changed."""
        self._watched.require_unchanged(type(self).__name__)

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Start a chain with a generator, and forget all earlier chains.

        SettingError if warm-up ends before a schedule of temperatures does.
        """
        self.require_unchanged()
        require_warm_up_for(self.program.schedule, tune)
        # Create a new chain before any change, because a copy of this step may share the old one.
        self.chain = Chain(self.program, self.rng, self.adapts and tune > 0)
        super().setup_chain(rng, tune, draws)

    def stop_tuning(self) -> None:
        """End warm-up: freeze the proposal, the predicted batch sizes and the centre."""
        if self.chain.state.adapting:
            self.require_unchanged()
            self.chain.stop_adapting()

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict]]:
        """Run the updates of one draw in one compiled call."""
        began = time.perf_counter()
        set_to_point(self.chain, point)
        self.begin(point)
        stats = self.advance()
        stats["perf_counter_diff"] = time.perf_counter() - began
        return position_as_point(self.chain, point), [stats]

    def begin(self, point: dict[str, np.ndarray]) -> None:
        """Start the chain at its position, given the other variables of a point, if it has not."""
        if not self.chain.state.started:
            self.target.condition_on(point)
            self.start(self.chain)

    def advance(self) -> dict:
        """Run the updates of one draw from the chain's position; return their statistics.

        Effects that are integrated out are not drawn.
        """
        began = time.perf_counter()
        chain, program = self.chain, self.program
        temperature = chain.temperature
        draws = chain.advance(1) if chain.state.started else chain.repeat_draw()
        stats = report.draw_statistics(
            draws.counts[0], program.updates_per_draw, program.statistics
        )
        stats["certified"] = chain.certified
        stats["scaling"] = chain.scaling
        stats["temperature"] = temperature
        name = type(self).__name__
        warning = report.next_warning(name, chain.state, program)
        stats["warning"] = warning or report.stay_warning(name, chain)
        stats["perf_counter_diff"] = time.perf_counter() - began
        return stats

    def start(self, chain: Chain) -> None:
        """Check a chain's start; replace a far default start, or one at which a scale collapses.

        MinibatchError if the density at the start is zero.
        """
        position = chain.position
        left = chain.state.adapting and np.array_equal(position, self._default_start)
        if left and self._leaves_default_start:
            position[:] = self.near_position(chain.rng, NEW_START)
        else:
            report.log_start(self.program, check_start(chain))
        self.target.require_finite_start(position)
        chain.state.started = not chain.state.is_waiting

    @property
    def _leaves_default_start(self) -> bool:
        """Whether adapting chains replace PyMC's start because it is far from the posterior."""
        s, start = self.plan.reference, self._default_start
        # Starts shared with other steps are not replaced, nor starts without a mode search.
        if not self.adapts or s.first or self.target.covariance is not None:
            return False
        return bool(self.plan.distance(start) > np.sqrt(chdtri(start.size, FAR_TAIL)))

    def gaussian_draw(self, rng: np.random.Generator, scale: float) -> dict[str, np.ndarray]:
        """Draw from the Gaussian approximation, with `scale` times its standard deviations."""
        return self.plan.unravel(self.near_position(rng, scale), {})

    def near_position(self, rng: np.random.Generator, scale: float) -> np.ndarray:
        """Position of such a draw, without effects that are integrated out."""
        return self.target.factorization.in_support(self.plan.gaussian_draw(rng, scale))

    def __reduce__(self) -> tuple:
        """Pickle prepared model, settings and chain, without the PyMC model and compiled code."""
        self.require_unchanged()
        # Replaces PyMC's own pickling, which would include the whole model.
        state = {k: v for k, v in self.__dict__.items() if k != "_BlockedStep__newargs"}
        return _restore_step, (type(self), state)

    _progressbar_config = staticmethod(report.progress_columns)
    _make_progressbar_update_functions = staticmethod(report.progress_functions)


def _restore_step(cls: type[MinibatchStep], state: dict[str, Any]) -> MinibatchStep:
    step = object.__new__(cls)
    step.__dict__.update(state)
    return step


def step_of(step: Any) -> MinibatchStep:
    """The step itself; SettingError for an object of another type."""
    if isinstance(step, type) and issubclass(step, MinibatchStep):
        raise SettingError(f"step={step.__name__} is a class. Pass {step.__name__}().")
    if not isinstance(step, MinibatchStep):
        raise SettingError(
            f"step={type(step).__name__} is not a step method of this package. Pass one such as "
            "TunaMH()."
        )
    return step


def model_behind(step: MinibatchStep) -> pm.Model:
    """Model of a step, from the context if the step was pickled.

    SettingError if the context has no model, or another one.
    """
    try:
        _, given = step.__getnewargs_ex__()
    except AttributeError:
        return _matching_context(step)
    return given["model"]


def _matching_context(step: MinibatchStep) -> pm.Model:
    model = pm.Model.get_context(error_if_none=False)
    parts = step.target.factorization
    needed = {block.name for block in (*parts.blocks, *parts.integrated, *parts.others)}
    if model is None or needed != {v.name for v in model.value_vars}:
        raise SettingError(
            f"step={type(step).__name__} was moved to this process without its model. Call this "
            "inside 'with model:' of that model."
        )
    return model
