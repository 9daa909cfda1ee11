"""Moves from draws of a trace, measured with all rows, and the bias of their errors.

docs/after.md has the mathematics. The bias of E[f] is a mean over pairs of errors of the acceptance
probability times changes of f, times Σ_j ρ_j over the autocorrelations of f from lag 0 on, in
updates. For a draw every k updates, of which the trace tells τ = 1 + 2 Σ_j ρ_(jk), and ρ between
draws as within the first one,

    Σ_j ρ_j = (1 + τ)/2 · (1 - ρ^k)/(1 - ρ),    1 - ρ = E[a (f(θ') - f(θ))²] / (2 Var f),

which is 1/(1 - ρ) where the autocorrelations are geometric. Moves without rows between the updates
make it smaller in what they move, which is not counted: an estimate is too large rather than too
small there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import compile as compile_graph
from scipy.special import ndtri, rel_entr, stdtr

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.probe import Acceptance, Probe, ProposedMove, RowsOfMove
from pymc_minibatch_mh.compiled.graphs import names_of_terms
from pymc_minibatch_mh.diagnostics.chosen_rows import posterior_draws, stand_ins
from pymc_minibatch_mh.diagnostics.predictive import values_of
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.steps.base import MinibatchStep


@dataclass(frozen=True, eq=False)
class ValueDraws:
    """The draws of all value variables of a model by name, each of shape (chains, draws, ...)."""

    values: Mapping[str, np.ndarray]
    chains: int
    draws: int

    def point(self, chain: int, draw: int) -> dict[str, np.ndarray]:
        """Return one draw as a point of the model."""
        return {name: values[chain, draw] for name, values in self.values.items()}

    def positions(self, step: MinibatchStep) -> np.ndarray:
        """Return all draws of the variables of a step's position, shape (chain, draw, d)."""
        factorization = step.target.factorization
        shape = self.chains, self.draws, -1
        parts = [self.values[b.name].reshape(shape) for b in factorization.blocks]
        return factorization.positions(np.concatenate(parts, axis=-1))

    def random_points(
        self, count: int, rng: np.random.Generator
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield draws at random, with repetition."""
        for place in rng.integers(self.chains * self.draws, size=count):
            yield self.point(*divmod(int(place), self.draws))

    def spread_out(self, count: int) -> list[tuple[int, int]]:
        """Return chain and draw of draws that lie evenly in all chains, at least `count`."""
        each = -(-count // self.chains)
        places = ((np.arange(each) + 0.5) / each * self.draws).astype(int)
        return [(chain, int(draw)) for chain in range(self.chains) for draw in places]


def value_draws(trace: xr.DataTree, model: pm.Model, step: MinibatchStep) -> ValueDraws:
    """Map a trace to the value variables of its model.

    SettingError if the trace, the model and the step do not belong together; names the variable.
    """
    _require_same_model(model, step)
    draws = posterior_draws(trace, model)
    values = _transformed(draws, model)
    for block in step.target.factorization.blocks + step.target.factorization.others:
        shape = values[block.name].shape[2:]
        if shape != block.shape:
            raise SettingError(
                f"{block.name!r} has shape {shape} in the trace, but {block.shape} in the step, so "
                "that they belong to different models. Give the step that sampled this trace."
            )
    chains, count = next(iter(draws.values())).shape[:2]
    return ValueDraws(values, chains, count)


def _require_same_model(model: pm.Model, step: MinibatchStep) -> None:
    names = {str(v.name) for v in model.value_vars}
    for block in step.target.factorization.blocks + step.target.factorization.others:
        if block.name not in names:
            raise SettingError(
                f"{block.name!r} is a variable of the step, but not of the model. Pass the model "
                "that the step was built for, as model= or as the context."
            )


def _transformed(draws: Mapping[str, np.ndarray], model: pm.Model) -> dict[str, np.ndarray]:
    given = stand_ins(model)
    values, moved = {}, {}
    for variable, graph in values_of(model, given).items():
        rv = model.values_to_rvs[variable]
        if model.rvs_to_transforms[rv] is None:
            values[str(variable.name)] = draws[str(rv.name)]
        else:
            moved[str(variable.name)] = graph
    if not moved:
        return values
    inputs = list(given.values())
    function = compile_graph(inputs, list(moved.values()), on_unused_input="ignore")
    shape = next(iter(draws.values())).shape[:2]
    results = []
    for place in np.ndindex(shape):
        point = [np.asarray(draws[str(v.name)][place], dtype=v.type.dtype) for v in inputs]
        results.append([np.asarray(value) for value in function(*point)])
    for name, column in zip(moved, zip(*results, strict=True), strict=True):
        stacked = np.stack(column)
        values[name] = stacked.reshape(*shape, *stacked.shape[1:])
    return values


#: Draws of warm-up where a trace does not tell: PyMC's default.
USUAL_TUNE = 1_000


class FrozenChain(NamedTuple):
    """A chain after warm-up, and the label of the one in the trace whose state it has, or None."""

    chain: Chain
    number: int | None

    @property
    def origin(self) -> str:
        """Where it is from, in words."""
        if self.number is None:
            return "adapted anew, on draws of the trace"
        return f"chain {self.number}, as it ended"


def frozen_as_sampled(
    step: MinibatchStep, trace: xr.DataTree, draws: ValueDraws, rng: np.random.Generator
) -> FrozenChain:
    """Return a chain in the state that a chain of a trace was frozen in.

    A step that has left it warms up anew, as long as that chain, on draws of the trace.
    """
    step.require_unchanged()
    number = chain_in_hand(step, trace)
    if number is not None:
        return FrozenChain(step.chain.copy(), number)
    count = int(trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE))
    factorization, chain = step.target.factorization, Chain(step.program, rng, step.adapts)
    points = draws.random_points(count, rng)
    chain.adapt_on(
        (factorization.ravel(point), factorization.ravel_others(point)) for point in points
    )
    return FrozenChain(chain, None)


def chain_in_hand(step: MinibatchStep, trace: xr.DataTree) -> int | None:
    """Return the label of the chain whose frozen state a step is still in, or None."""
    drawn = trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE) + trace.posterior.sizes["draw"]
    if step.chain.state.adapting or step.chain.state.n_draws != drawn:
        return None
    last = trace["sample_stats"]["scaling"].isel(draw=-1)
    # Adapted in warm-up to all digits, the scale tells chains apart; the last one ran last.
    for chain in reversed(last["chain"].to_numpy()):
        if (last.sel(chain=chain).to_numpy() == step.chain.scaling).any():
            return int(chain)
    return None


#: A move to where the density is zero before a row is read: rejected, and left alone.
REJECTED = Acceptance(0.0, 0.0, 0.0, np.nan)
UNREAD = RowsOfMove(-np.inf, np.nan, np.nan, np.nan, np.nan, np.nan, -1)


@dataclass(frozen=True, eq=False)
class Measured:
    """P moves from draws of a trace, as arrays of P entries."""

    chain: np.ndarray
    draw: np.ndarray
    position: np.ndarray
    new: np.ndarray
    #: Fields of `Acceptance`, for the move and for the way back, and fields of `RowsOfMove`.
    there: dict[str, np.ndarray]
    back: dict[str, np.ndarray]
    rows: dict[str, np.ndarray]

    @property
    def error(self) -> np.ndarray:
        """The error of the acceptance probability, shape (P,).

        With a and a' the test's probabilities there and back and Δ the exact log ratio, it is
        a - σ(Δ)(a + a'), σ the logistic function: 0 where the pair is in detailed balance.
        """
        forward, backward = self._shares
        return forward * self.there["mean"] - backward * np.nan_to_num(self.back["mean"])

    @property
    def error_mcse(self) -> np.ndarray:
        """Its Monte Carlo standard error, shape (P,)."""
        forward, backward = self._shares
        return np.hypot(forward * self.there["mcse"], backward * np.nan_to_num(self.back["mcse"]))

    @property
    def _shares(self) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(over="ignore"):
            backward = 1.0 / (1.0 + np.exp(-self.rows["log_ratio"]))
        return 1.0 - backward, backward


def measured(step: MinibatchStep, draws: ValueDraws, pairs: int, probe: Probe) -> Measured:
    """Propose from draws of a trace, and measure each move with all rows.

    SettingError if a draw has zero density, so that the trace cannot be of this model.
    """
    places = draws.spread_out(pairs)
    positions = draws.positions(step)
    moves, there, back, rows = [], [], [], []
    for chain, draw in places:
        point = draws.point(chain, draw)
        probe.given(step.target.factorization.ravel_others(point))
        step.target.condition_on(point)
        position = np.ascontiguousarray(positions[chain, draw], dtype=np.float64)
        move = probe.propose(position)
        moves.append(move)
        possible = np.isfinite(move.cheap)
        rows.append(probe.rows(move) if possible else UNREAD)
        _require_possible(step, move, rows[-1], chain, draw)
        there.append(probe.acceptance(move) if possible else REJECTED)
        # Where the proposal has zero density, the way back starts outside the posterior.
        returns = np.isfinite(rows[-1].log_ratio)
        back.append(probe.acceptance(move.back) if returns else REJECTED)
    chains, numbers = np.array(places).T
    return Measured(
        chains,
        numbers,
        np.array([move.position for move in moves]),
        np.array([move.new for move in moves]),
        *(_columns(records) for records in (there, back, rows)),
    )


def _columns(records: list) -> dict[str, np.ndarray]:
    return {
        name: np.array(values)
        for name, values in zip(records[0]._fields, zip(*records, strict=True), strict=True)
    }


def _require_possible(
    step: MinibatchStep, move: ProposedMove, rows: RowsOfMove, chain: int, draw: int
) -> None:
    target, position = step.target, move.position
    if np.isfinite(rows.log_ratio):
        return
    if np.isfinite(target.log_prior(position)) and np.isfinite(target.log_likelihood(position)):
        return
    raise SettingError(
        f"{names_of_terms(target.factorization)}: draw {draw} of chain {chain} has zero density in "
        "the step's model, so that the trace is not of this model and data. Give the step that "
        "sampled this trace."
    )


#: By how much warm-up that ran anew may lower the rate: two chains adapt to different proposals.
ANEW = 0.5


class Accepted(NamedTuple):
    """Rates of acceptance of the audited moves and of the updates of the trace."""

    pairs: float
    trace: float
    #: Bound of the log probability of such a difference, where there should be none.
    log_chance: float


def accepted(
    measured: Measured, trace: xr.DataTree, number: int | None, times: np.ndarray
) -> Accepted:
    """Compare how often audited moves are accepted with how often those of a trace were.

    Draws that are not of the step's posterior may lie where every move is rejected. Nothing moves
    from there, so that nothing drifts; but the chain of the trace moved, as its stats say. Moves
    that ended in a violated bound are left out, and updates of the trace count at its last
    temperature. `number` is the chain whose frozen state proposed; None for a warm-up that was run
    anew, whose moves may be accepted more often, and half as often. `times` are autocorrelation
    times between draws of all moments: a chain that stays in a tail for long is rejected there
    again and again.
    """
    rates = measured.there["mean"]
    rates = rates[np.isfinite(rates)]
    own = float(rates.mean()) if rates.size else 0.0
    shares = _shares(trace, number)
    # Steps of this package beside each other have their stats there, too: one of them is this one.
    of_steps = [float(share.mean()) for share in shares]
    k = int(np.argmin(np.abs(np.array(of_steps) - own)))
    theirs, size = of_steps[k], shares[k].size
    slowest = float(np.max(times, initial=1.0, where=np.isfinite(times)))
    effective = min(float(az.ess(shares[k], method="mean")), size / slowest)
    least = theirs if number is not None else ANEW * theirs
    chance = 0.0
    if number is not None or own < least:
        # Moves from draws that depend on each other say less than their number.
        chance = _log_chance(own, min(rates.size, effective), least, effective)
    return Accepted(own, theirs, chance)


def _shares(trace: xr.DataTree, number: int | None) -> list[np.ndarray]:
    """Return the shares of updates that were accepted, shape (chain, draw), of each step."""
    share, temperature = (trace["sample_stats"][name] for name in ("accepted_share", "temperature"))
    if number is not None:
        share, temperature = share.sel(chain=[number]), temperature.sel(chain=[number])
    chains, draws = share.sizes["chain"], share.sizes["draw"]
    values = share.to_numpy().reshape(chains, draws, -1)
    temperatures = temperature.to_numpy().reshape(chains, draws, -1)
    last = (temperatures == temperatures[:, -1:]).all(axis=(0, 2))
    return list(np.moveaxis(values[:, last], -1, 0))


def _log_chance(rate: float, count: float, other: float, other_count: float) -> float:
    """Return Chernoff's bound -n KL(p | m) - n' KL(p' | m), for rates in [0, 1] of one mean m."""
    mean = (count * rate + other_count * other) / (count + other_count)
    return -(count * _divergence(rate, mean) + other_count * _divergence(other, mean))


def _divergence(rate: float, mean: float) -> float:
    return float(rel_entr(rate, mean) + rel_entr(1.0 - rate, 1.0 - mean))


#: Moments whose bias is estimated, in standard deviations of the draws.
MOMENTS = ("mean", "sd")
#: Least distance of ρ from 1, and probability that has a quantile.
LEAST_GAP, LEAST_TAIL = 1e-9, 1e-300


class Bias(NamedTuple):
    """Estimates, each of shape (moment, coordinate)."""

    #: Bias in standard deviations of the draws, and its Monte Carlo standard error. That of the
    #: standard deviation itself is half the relative bias of the variance.
    estimate: np.ndarray
    mcse: np.ndarray
    #: The same with the absolute value of every pair's contribution, Monte Carlo noise included.
    bound: np.ndarray
    #: Mean change of the moment in an update, in units of its standard error: about standard
    #: normal, if draws are what the update leaves them. Of few effective pairs it is Student's t,
    #: in the normal quantile of the same probability.
    drift: np.ndarray
    #: Integrated autocorrelation time between draws.
    autocorrelation_time: np.ndarray


def bias_of(draws: np.ndarray, measured: Measured, first: int, updates_per_draw: int) -> Bias:
    """Estimate the bias of mean and standard deviation of every coordinate that a step moves.

    `draws` are all of the position, shape (chain, draw, d), whose coordinates are moved from
    `first` on. Moves that ended in a violated bound are left out.
    """
    own = draws[..., first:]
    centre, scale = own.mean(axis=(0, 1)), own.std(axis=(0, 1))
    usable = np.isfinite(measured.error)

    def moments(positions: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (positions[..., first:] - centre) / scale
        # Half of the square: a change of the variance in units of twice itself.
        return np.stack([z, 0.5 * z * z], axis=-2)

    change = moments(measured.new[usable]) - moments(measured.position[usable])
    values = moments(draws)
    error = measured.error[usable, None, None]
    accept = measured.there["mean"][usable, None, None]
    n_draws = draws.shape[0] * draws.shape[1]
    array = xr.DataArray(values, dims=("chain", "draw", "moment", "coordinate"))
    effective = az.ess(array, method="mean").to_numpy()
    time = n_draws / effective
    gap = np.clip(
        np.mean(accept * change**2, axis=0) / (2.0 * values.var(axis=(0, 1))), LEAST_GAP, 2.0
    )
    within = (1.0 - (1.0 - gap) ** updates_per_draw) / gap
    factor = 0.5 * (1.0 + time) * within
    # Pairs from dependent draws say less than their number.
    count = np.minimum(usable.sum(), effective)
    drift = accept * change
    return Bias(
        factor * np.mean(error * change, axis=0),
        factor * np.std(error * change, axis=0) / np.sqrt(count),
        factor * np.mean(np.abs(error * change), axis=0),
        as_normal(np.mean(drift, axis=0) / (np.std(drift, axis=0) / np.sqrt(count)), count - 1.0),
        time,
    )


def as_normal(t: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    """Return the normal quantiles of the probabilities of Student's t."""
    tail = np.maximum(stdtr(np.maximum(freedom, 1.0), -np.abs(t)), LEAST_TAIL)
    return np.copysign(ndtri(tail), t)
