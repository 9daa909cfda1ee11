"""Forecasts before sampling: pilot chains of a step, the speed of NUTS, and a recommendation."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Literal, NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from pytensor.gradient import NullTypeGradError
from scipy.special import stdtrit
from threadpoolctl import threadpool_limits

from pymc_minibatch_mh.chain.chain import Chain, point_at, set_to_point
from pymc_minibatch_mh.chain.starts import perturbed_start, scale_collapses
from pymc_minibatch_mh.costs import LEAPFROG, RECORDING
from pymc_minibatch_mh.diagnostics.sheet import format_duration, format_figure
from pymc_minibatch_mh.model.stored_ops import stored_arrays
from pymc_minibatch_mh.native.statistics import STATS
from pymc_minibatch_mh.progress import count_parts, report_stage
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.deterministics import describe_size
from pymc_minibatch_mh.steps.penalty import penalty_beside
from pymc_minibatch_mh.steps.report import FULL_PASS_STRONG, MIN_ACCEPTANCE, next_warning

#: Number of pilots, whose spread gives the errors; minimum number; time limit for starting more.
PILOTS, MIN_PILOTS, MAX_PILOT_SECONDS = 4, 2, 4.0
#: Further draws per pilot, in blocks: minimum, maximum, and seconds after which no block starts.
#: The number of draws doubles with each block, so that timing rarely changes a figure.
MIN_IN_BLOCKS, MAX_IN_BLOCKS, MAX_BLOCK_SECONDS = 128, 32_768, 0.6
#: Forecast times are for this many effective draws, after this many warm-up draws.
EFFECTIVE, WARM_UP = 1_000, 1_000


class PilotSettings(NamedTuple):
    """Total draws of all pilots, draws of warm-up of each, and the generator of their seeds."""

    draws: int
    tune: int
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Pilots:
    """Draws of pilots after warm-up, and counts of further draws that were made in blocks."""

    #: Moved coordinates, shape (pilots, draws, d), and their names.
    draws: np.ndarray
    names: list[str]
    #: Statistics by name, shape (pilots, draws), and counts, shape (pilots, further draws).
    stats: Mapping[str, np.ndarray]
    counts: np.ndarray
    #: Seconds per draw: in blocks after warm-up, and during warm-up.
    seconds_in_blocks: float
    seconds_in_warm_up: float
    #: First warning of a pilot, or a warning about the updates of all pilots together.
    warning: str
    #: Last point of the last pilot, and whether the bounds held in all pilots.
    point: dict[str, np.ndarray]
    certified: bool

    def counted(self, name: str) -> np.ndarray:
        """Values of a statistic for all draws, those in blocks included, shape (pilots, draws)."""
        return np.concatenate([self.stats[name], self.counts[STATS[name].entry]], axis=1)


class _Run(NamedTuple):
    """Result of one pilot, with the seconds per draw of warm-up."""

    step: MinibatchStep
    point: dict[str, np.ndarray]
    positions: np.ndarray
    stats: list[dict]
    seconds_in_warm_up: float


def fresh_chain(step: MinibatchStep, rng: np.random.Generator, tune: int) -> MinibatchStep:
    """Step with a new chain on the same preparation; a pickled copy would prepare again."""
    other = object.__new__(type(step))
    other.__dict__.update(step.__dict__)
    other.setup_chain(rng, tune, 0)
    return other


def first_point(
    step: MinibatchStep, model: pm.Model, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Start of a pilot: a draw from the Gaussian approximation.

    With ``centre="start"`` it is the centre, perturbed if slice updates without the likelihood
    would diverge from there.
    """
    if step.target.covariance is None:
        return {**model.initial_point(), **step.gaussian_draw(rng, 1.0)}
    start = step.plan.reference.centre
    if scale_collapses(step.plan, start):
        near = perturbed_start(step.plan, start, rng)
        start = start if near is None else near
    return {**model.initial_point(), **step.target.factorization.unravel(start, {})}


def run_pilots(
    step: MinibatchStep, model: pm.Model, draws: int, tune: int, rng: np.random.Generator
) -> Pilots:
    """Up to four new chains of a step, with `draws` draws in total; fewer if they are slow."""
    factorization, others = step.target.factorization, step.target.source.others
    before, label = others.copy(), f"Pilots of {type(step).__name__}"
    report_stage(label)
    runs, began = [], time.perf_counter()
    try:
        with count_parts(label, PILOTS) as advance:
            for _ in range(PILOTS):
                seeded = np.random.default_rng(rng.integers(2**63))
                runs.append(_run_pilot(step, model, -(-draws // PILOTS), tune, seeded))
                advance()
                if len(runs) >= MIN_PILOTS and time.perf_counter() - began > MAX_PILOT_SECONDS:
                    break
            counts, in_blocks = advance_in_blocks([run.step.chain for run in runs])
    finally:
        others[:] = before
    first = factorization.first
    return Pilots(
        draws=np.array([run.positions[:, first:] for run in runs]),
        names=factorization.coordinate_names[first:],
        stats={
            name: np.array([[draw[name] for draw in run.stats] for run in runs])
            for name in runs[0].stats[0].keys() - {"warning"}
        },
        counts=counts,
        seconds_in_blocks=in_blocks,
        seconds_in_warm_up=float(np.mean([run.seconds_in_warm_up for run in runs])),
        warning=_first_warning(runs, counts),
        point=runs[-1].point,
        certified=all(run.step.chain.certified for run in runs),
    )


def _run_pilot(
    step: MinibatchStep, model: pm.Model, draws: int, tune: int, rng: np.random.Generator
) -> _Run:
    pilot, point = fresh_chain(step, rng, tune), first_point(step, model, rng)
    began, factorization = time.perf_counter(), step.target.factorization
    set_to_point(pilot.chain, point)
    pilot.begin(point)
    if tune:
        pilot.advance()
        if pilot.chain.state.started:
            pilot.chain.advance(tune - 1)
    pilot.stop_tuning()
    in_warm_up = (time.perf_counter() - began) / max(tune, 1)
    positions, stats = np.empty((draws, factorization.size)), []
    for position in positions:
        # Effects that are integrated out are not drawn.
        stats.append(pilot.advance())
        position[:] = factorization.values(pilot.chain.position)
    return _Run(pilot, point_at(pilot.chain, point), positions, stats, in_warm_up)


def advance_in_blocks(chains: list[Chain]) -> tuple[np.ndarray, float]:
    """Counts of further draws, made in blocks by copies of the chains, and seconds per draw."""
    copies, blocks, made = [chain.copy() for chain in chains], [], 0
    for copied in copies:
        copied.advance(1)
    began = time.perf_counter()
    while True:
        block = made or MIN_IN_BLOCKS
        blocks.append([copied.advance(block).counts for copied in copies])
        made, seconds = made + block, time.perf_counter() - began
        if seconds > MAX_BLOCK_SECONDS or made >= MAX_IN_BLOCKS:
            return np.concatenate(blocks, axis=1), seconds / (made * len(copies))


def _first_warning(runs: list[_Run], counts: np.ndarray) -> str:
    """First warning of a pilot, or a warning about the updates of all pilots together."""
    for draw in (draw for run in runs for draw in run.stats):
        if draw["warning"]:
            return draw["warning"].message
    step = runs[-1].step
    state = step.chain.copy().state
    state.n_updates += step.updates_per_draw * counts.size
    state.n_full += int(counts["full_pass"].sum())
    state.n_accepted += int(counts["accepted"].sum())
    warned = next_warning(type(step).__name__, state, step.program)
    return "" if warned is None else warned.message


class Memory(NamedTuple):
    """Memory in bytes: data, which are not copied, tables of bounds, and sums over all rows."""

    data: int
    tables: int
    sums: int
    #: Whether the data come from Rows(...) and stay in their files.
    stored: bool = False

    def describe(self) -> str:
        """Text with the sizes of data, tables and sums."""
        source = "of Rows(...), read in blocks" if self.stored else "the model's own"
        tables, sums = describe_size(self.tables), describe_size(self.sums)
        return f"data {describe_size(self.data)} ({source}), tables {tables}, sums {sums}"


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Efficiency of a step, estimated from pilots."""

    #: Draws of all pilots together, and of the warm-up of each.
    draws: int
    tune: int
    updates_per_draw: int
    #: Mean observations per update, with Student's 95 % error from the spread between pilots.
    rows_per_update: float
    rows_error: float
    #: Share of accepted updates, and estimated error of the acceptance probability: 0 if exact.
    acceptance: float
    acceptance_error: float
    full_pass_share: float
    #: Time per update within the step, including its share of the overhead per draw.
    microseconds_per_update: float
    #: Time to draw the effects that are integrated out, for each stored draw; 0 without them.
    milliseconds_of_effects: float = 0.0
    #: Smallest bulk effective sample size of a coordinate, and the name of that coordinate.
    ess: float
    worst: str
    #: ESS/s of one chain after warm-up by pm.sample(), and by sample(): 0 if other steps run.
    ess_per_second: float
    ess_per_second_in_blocks: float
    #: Seconds for 1,000 warm-up and 1,000 effective draws by one chain, in sample() if possible.
    seconds: float
    memory: Memory
    #: Seconds of preparation; NaN for a step that was built before.
    preparation_seconds: float
    #: Variables of other steps, which were constant in the pilots.
    constant_variables: tuple[str, ...]
    warning: str

    def describe_rows(self, n_rows: int) -> str:
        """Observations that a draw evaluates, out of `n_rows`."""
        mean, error = (self.updates_per_draw * x for x in (self.rows_per_update, self.rows_error))
        share = self.full_pass_share
        full = f"; {share:.1%} of the updates evaluate all" if share >= 5e-4 else ""
        return f"{format_figure(mean)} ± {float(f'{error:.2g}'):,g} of {n_rows:,}{full}"

    def describe_seconds(self) -> str:
        """Time to 1,000 effective draws, and of preparation if it is known."""
        call = "pm.sample(step=found.step)" if self.constant_variables else "sample(found.step)"
        text = f"{format_duration(self.seconds)} by one chain of {call}, warm-up included"
        known = not isnan(self.preparation_seconds)
        return text + f"; preparation took {format_duration(self.preparation_seconds)}" * known

    def lines(self) -> list[tuple[str, str]]:
        """Labels and values of all figures."""
        updates = f"{self.updates_per_draw:,} update{'s' * (self.updates_per_draw != 1)} a draw"
        acceptance = f"{self.acceptance:.3f}"
        if self.acceptance_error:
            acceptance += (
                f"; estimated error of the probability: {format_figure(self.acceptance_error)}"
            )
        speed = f"{format_figure(self.ess_per_second)} by pm.sample()"
        if self.ess_per_second_in_blocks:
            speed += f", {format_figure(self.ess_per_second_in_blocks)} by sample() in each thread"
        names = ", ".join(self.constant_variables)
        constant = f"{names}: other steps move them, which no figure includes" if names else ""
        error = format_figure(self.rows_error)
        effects = format_figure(self.milliseconds_of_effects)
        return [
            ("rests on", f"{self.draws:,} draws of pilots, {self.tune:,} of warm-up in each; "
             f"{updates}"),
            ("an update evaluates", f"{format_figure(self.rows_per_update)} ± {error}"),
            ("acceptance rate", acceptance),
            ("full-data evaluations", f"{self.full_pass_share:.1%} of the updates"),
            ("time per update", f"{format_figure(self.microseconds_per_update)} µs"),
            ("time of effects", f"{effects} ms for each stored draw" if effects != "0" else ""),
            ("effective draws", f"{self.ess:,.0f} of {self.draws:,} for {self.worst}, the worst "
             "coordinate"),
            ("ESS/s", speed),
            ("1,000 effective draws", self.describe_seconds()),
            ("memory", self.memory.describe()),
            ("held still", constant),
            ("warning", self.warning),
        ]  # fmt: skip


class Approximate(NamedTuple):
    """An approximate step that shares the preparation of an exact one, and its forecast."""

    method: str
    step: MinibatchStep
    forecast: Forecast


def forecast_step(
    step: MinibatchStep, model: pm.Model, settings: PilotSettings, preparation_seconds: float = nan
) -> tuple[Forecast, Pilots]:
    """Run pilots of a step and summarise them."""
    pilots = run_pilots(step, model, *settings)
    return summarize_pilots(step, pilots, settings.tune, preparation_seconds), pilots


def forecast_penalty(
    step: MinibatchStep, model: pm.Model, settings: PilotSettings, preparation_seconds: float = nan
) -> Approximate | None:
    """Forecast of PenaltyMH with the preparation of an exact step; None for other steps."""
    if step.program.sampler.n_decisions > 1 or not step.guarantee.is_exact:
        return None
    other = penalty_beside(step, np.random.default_rng(settings.rng.integers(2**63)))
    forecast, _ = forecast_step(other, model, settings, preparation_seconds)
    return Approximate(type(other).__name__, other, forecast)


def summarize_pilots(
    step: MinibatchStep, pilots: Pilots, tune: int, preparation_seconds: float
) -> Forecast:
    """Forecast from the pilots of a step; `preparation_seconds` is NaN if unknown."""
    draws, updates = pilots.draws.shape[0] * pilots.draws.shape[1], step.updates_per_draw
    rows = pilots.counted("n_obs").mean(axis=1) / updates
    others, seconds = step.left_to_others, seconds_per_draw(pilots)
    effective = effective_draws(pilots.draws)
    ess = float(effective.min())
    per_draw = seconds + RECORDING if others else pilots.seconds_in_blocks
    warm_up = pilots.seconds_in_warm_up if tune else per_draw
    effects = step.plan.seconds_of_effects
    stored = per_draw + effects
    return Forecast(
        draws=draws,
        tune=tune,
        updates_per_draw=updates,
        rows_per_update=float(np.mean(rows)),
        rows_error=error_of_mean(rows),
        acceptance=float(pilots.stats["accepted_share"].mean()),
        acceptance_error=float(pilots.counts["error"].mean()) / updates,
        full_pass_share=float(pilots.counted("full_pass").mean()) / updates,
        microseconds_per_update=1e6 * seconds / updates,
        milliseconds_of_effects=1e3 * effects,
        ess=ess,
        worst=pilots.names[int(effective.argmin())],
        ess_per_second=ess / (draws * (seconds + RECORDING + effects)),
        ess_per_second_in_blocks=0.0 if others else ess / (draws * stored),
        seconds=WARM_UP * warm_up + EFFECTIVE * stored * draws / max(ess, 1e-9),
        memory=memory_of(step),
        preparation_seconds=preparation_seconds,
        constant_variables=others,
        warning=pilots.warning,
    )


def seconds_per_draw(pilots: Pilots) -> float:
    """Mean time per draw within the step, including rare full-data evaluations."""
    return float(pilots.stats["perf_counter_diff"].mean())


def effective_draws(draws: np.ndarray) -> np.ndarray:
    """Bulk effective sample size of each coordinate of draws, shape (chain, draw, d)."""
    ess = az.ess(xr.Dataset({"x": (("chain", "draw", "coordinate"), draws)}))
    moved = np.ptp(draws, axis=(0, 1)) > 0.0
    # ArviZ counts every draw of a constant as effective: report 0 instead.
    return np.where(moved, ess["x"].to_numpy(), 0.0)


def error_of_mean(means: np.ndarray) -> float:
    """Half width of Student's 95 % interval for the mean, from the means of pilots."""
    n = len(means)
    return float(stdtrit(n - 1, 0.975) * np.std(means, ddof=1) / np.sqrt(n))


def memory_of(step: MinibatchStep) -> Memory:
    """Memory of a step in bytes; a data array of several terms counts once."""
    tables, source = step.plan.bounds, step.target.source
    arrays = [column.values for column in source.columns]
    data = {a.ctypes.data if isinstance(a, np.ndarray) else id(a): a.nbytes for a in arrays}
    sums = sum(np.asarray(part).nbytes for part in step.plan.reference)
    n_tables = 0 if tables is None else tables.nbytes
    return Memory(sum(data.values()), n_tables, sums, not source.in_memory)


#: Rule for NUTS (docs/before.md): gradients per effective draw of the coordinate with the smallest
#: ESS, divided by √κ. `RULE_ERROR`: factor by which the rule may be wrong.
GRADIENTS, RULE_ERROR = 5.0, 3.0
#: Gradients per effective draw with hundreds of effects, as measured for radon with varying
#: intercepts (docs/before.md); with varying slopes 1,700. κ at one point cannot predict them.
GRADIENTS_FOR_RADON = 119.0
#: Errors that PyTensor raises if it has no gradient.
NO_GRADIENT = (NotImplementedError, NullTypeGradError)
#: Timed gradients: minimum and maximum number, and seconds after which timing may stop.
MIN_TIMED, MAX_TIMED, TIMED_SECONDS = 3, 500, 0.5
#: `NUTPIE`: call that runs NUTS through nutpie. `NUTS`, `WITHOUT_NUTS`: names of PyMC's samplers.
NUTPIE = 'pm.sample(nuts_sampler="nutpie")'
NUTS, WITHOUT_NUTS = "pm.NUTS", "pm.sample() with the steps that PyMC assigns"

#: Posterior covariance; "effects" if left out because of hundreds of effects; None if unknown.
type Covariance = np.ndarray | Literal["effects"] | None


@dataclass(frozen=True)
class NutsForecast:
    """Cost of NUTS, from the time of a gradient and the rule of 5 √κ gradients."""

    #: Condition number κ of the posterior's correlation matrix at the mode, or NaN.
    condition_number: float
    gradients_per_effective_draw: float
    #: Shortest time of a gradient on one core, and seconds of compilation; NaN for ``nuts=False``.
    gradient_microseconds: float = nan
    compile_seconds: float = nan
    #: ESS/s of one chain, after warm-up.
    ess_per_second: float = nan

    @property
    def is_timed(self) -> bool:
        """Whether a gradient was timed."""
        return not isnan(self.ess_per_second)

    def with_gradient(self, seconds: float, compile_seconds: float = nan) -> "NutsForecast":
        """The same forecast with the speed for a gradient that takes `seconds`."""
        speed = 1.0 / (self.gradients_per_effective_draw * (seconds + LEAPFROG))
        return replace(
            self,
            gradient_microseconds=1e6 * seconds,
            compile_seconds=compile_seconds,
            ess_per_second=speed,
        )

    def describe(self) -> str:
        """Time to 1,000 effective draws."""
        if not self.is_timed:
            return "left out by nuts=False"
        return (
            f"{format_duration(EFFECTIVE / self.ess_per_second)} after warm-up, at "
            f"{format_figure(self.gradient_microseconds)} µs a gradient"
        )

    def lines(self) -> list[tuple[str, str]]:
        """Labels and values of all figures."""
        rule = "by 5 √κ with κ unknown, taken to be 1"
        if not isnan(self.condition_number):
            rule = f"by 5 √κ with κ = {format_figure(self.condition_number)}"
        elif self.gradients_per_effective_draw == GRADIENTS_FOR_RADON:
            rule = "the fewest measured for a hierarchy"
        gradients = f"{self.gradients_per_effective_draw:.1f} per effective draw, {rule}"
        lines = [("1,000 effective draws", self.describe()), ("gradients", gradients)]
        preparation = f"{self.compile_seconds:.1f} s of compilation"
        timed = [("ESS/s", format_figure(self.ess_per_second)), ("preparation", preparation)]
        return lines + timed * self.is_timed


def forecast_nuts(
    model: pm.Model, point: Mapping[str, np.ndarray], covariance: Covariance, timed: bool = True
) -> NutsForecast | None:
    """Forecast of NUTS on a model's continuous variables; None if it cannot run.

    If `timed`, the gradient is compiled as PyMC compiles it, which also fills PyTensor's cache.
    """
    variables = list(model.continuous_value_vars)
    number, gradients = gradients_by_rule(covariance)
    try:
        with warnings.catch_warnings():
            # PyMC builds a pm.Simulator with deprecated functions, which users cannot change.
            warnings.simplefilter("ignore", DeprecationWarning)
            density = model.logp()
            if not variables or stored_arrays([density]):
                return None
            if not timed:
                pytensor.grad(density, variables, disconnected_inputs="ignore")
                return NutsForecast(number, gradients)
            report_stage("Compiling the gradient for NUTS")
            began = time.perf_counter()
            function = model.logp_dlogp_function(
                variables, ravel_inputs=True, initial_point=dict(point)
            )
    except NO_GRADIENT:
        return None
    building = time.perf_counter() - began
    position = np.concatenate([np.ravel(point[v.name]) for v in variables])
    first, seconds = seconds_per_call(function, position.astype(variables[0].dtype))
    return NutsForecast(number, gradients).with_gradient(seconds, building + first)


def covariance_for_nuts(step: MinibatchStep) -> Covariance:
    """Posterior covariance at the centre of a step, or "effects"."""
    covariance = step.plan.covariance
    return "effects" if covariance is None else covariance


def gradients_by_rule(covariance: Covariance) -> tuple[float, float]:
    """Condition number κ or NaN, and gradients per effective draw, with κ = 1 if unknown."""
    if isinstance(covariance, str):
        return nan, GRADIENTS_FOR_RADON
    if covariance is None:
        return nan, GRADIENTS
    number = condition_number(covariance)
    return number, GRADIENTS * float(np.sqrt(number))


def seconds_per_call(
    function: Callable[[np.ndarray], object], position: np.ndarray
) -> tuple[float, float]:
    """Seconds of a function's first call, which compiles it, and of its fastest other call.

    The shortest time excludes the load of a busy machine, to the advantage of NUTS.
    """
    seconds: list[float] = []
    with threadpool_limits(limits=1):
        while len(seconds) <= MIN_TIMED or (
            len(seconds) <= MAX_TIMED and sum(seconds[1:]) < TIMED_SECONDS
        ):
            began = time.perf_counter()
            function(position)
            seconds.append(time.perf_counter() - began)
    return seconds[0], min(seconds[1:])


def condition_number(covariance: np.ndarray) -> float:
    """Condition number κ of the correlation matrix: NUTS adapts to the scale of coordinates."""
    scales = np.sqrt(np.diag(covariance))
    values = np.linalg.eigvalsh(covariance / scales / scales[:, None])
    return float(values[-1] / max(values[0], np.finfo(float).tiny))


def recommend_sampler(
    method: str,
    n_rows: int,
    size: int,
    forecast: Forecast,
    nuts: NutsForecast | None,
    approximate: Approximate | None = None,
) -> tuple[str, str]:
    """Recommended sampler and the reason: the step `method` of a forecast, NUTS or PenaltyMH.

    `nuts` may be untimed, and is None for models without gradients. `approximate` is passed if most
    updates of an exact step evaluate all observations.
    """
    if forecast.acceptance < MIN_ACCEPTANCE:
        return alternative_sampler(nuts), (
            f"the pilots accepted {forecast.acceptance:.1%} of the proposals, too few for a "
            "forecast; the posterior is far from normal"
        )
    speeds = _compare_speeds(method, forecast, nuts)
    reads_all = f"{forecast.full_pass_share:.0%} of the updates evaluate all observations"
    if approximate is not None and _pays_off(approximate.forecast, forecast, nuts):
        faster = _compare_speeds(approximate.method, approximate.forecast, nuts)
        return approximate.method, (
            f"{faster}, but approximate; {method}, which is exact, has "
            f"{format_figure(forecast.ess_per_second)}, because {reads_all}"
        )
    # If d exceeds √N/2, bounds of order 2 require about as many evaluations as there are rows.
    few = ""
    if size > np.sqrt(n_rows) / 2.0:
        few = f"N/d = {n_rows / size:,.0f} is too small (d = {size:,} exceeds √N/2): "
    if nuts is not None and nuts.ess_per_second >= forecast.ess_per_second:
        return NUTS, f"{few}{speeds}"
    if forecast.full_pass_share <= FULL_PASS_STRONG:
        return method, speeds
    if forecast.ess_per_second >= _highest_speed(nuts):
        return method, f"{speeds}; but subsampling gains nothing: {reads_all}"
    also = ""
    if approximate is not None:
        speed = format_figure(approximate.forecast.ess_per_second)
        also = f", {speed} for {approximate.method}, which is approximate"
    return NUTS, f"{few}subsampling gains nothing: {reads_all}; {speeds}{also}"


def alternative_sampler(nuts: NutsForecast | None) -> str:
    """Recommended sampler for a model that is unsuitable for subsampling."""
    return WITHOUT_NUTS if nuts is None else NUTS


def _highest_speed(nuts: NutsForecast | None) -> float:
    """Maximum ESS/s of NUTS within the error of the rule; infinite if untimed."""
    if nuts is None:
        return 0.0
    return RULE_ERROR * nuts.ess_per_second if nuts.is_timed else np.inf


def _pays_off(approximate: Forecast, exact: Forecast, nuts: NutsForecast | None) -> bool:
    """Whether an approximate step gains more than the errors of forecasts."""
    works = (
        approximate.acceptance >= MIN_ACCEPTANCE and approximate.full_pass_share <= FULL_PASS_STRONG
    )
    enough = RULE_ERROR * exact.ess_per_second
    if nuts is not None and nuts.is_timed:
        enough = max(enough, _highest_speed(nuts))
    return works and approximate.ess_per_second >= enough


def _compare_speeds(method: str, forecast: Forecast, nuts: NutsForecast | None) -> str:
    if nuts is None or not nuts.is_timed:
        return f"{format_figure(forecast.ess_per_second)} ESS/s"
    low, high = sorted((forecast.ess_per_second, nuts.ess_per_second))
    slower = "NUTS" if low == nuts.ess_per_second else method
    ratio = format_figure(high / max(low, 1e-9))
    return (
        f"{ratio} times the ESS/s of {slower}, {format_figure(high)} against {format_figure(low)}"
    )
