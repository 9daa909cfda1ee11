"""Moves from draws of a trace, measured with all rows, and the bias of their errors.

docs/after.md has the mathematics.
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import compile as compile_graph
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, ndtri, rel_entr, stdtr

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.kernel_probe import Acceptance, Probe, ProposedMove, RowsOfMove
from pymc_minibatch_mh.compiled.graphs import names_of_terms
from pymc_minibatch_mh.diagnostics.chosen_rows import counted, posterior_draws, stand_ins
from pymc_minibatch_mh.diagnostics.predictive import values_of
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.steps.base import MinibatchStep

#: Draws of all value variables of a model by name, each of shape (chain, draw, ...).
ValueDraws = Mapping[str, np.ndarray]


def point_of(draws: ValueDraws, chain: int, draw: int) -> dict[str, np.ndarray]:
    """Return one draw as a point of the model."""
    return {name: values[chain, draw] for name, values in draws.items()}


def positions_of(draws: ValueDraws, step: MinibatchStep) -> np.ndarray:
    """Return all draws of the variables of a step's position, shape (chain, draw, d)."""
    factorization = step.target.factorization
    parts = [draws[b.name] for b in factorization.blocks]
    parts = [values.reshape(*values.shape[:2], -1) for values in parts]
    return factorization.positions(np.concatenate(parts, axis=-1))


def value_draws(trace: xr.DataTree, model: pm.Model, step: MinibatchStep) -> ValueDraws:
    """Map a trace to the value variables of its model.

    SettingError if the trace, the model and the step do not belong together; names the variable.
    """
    blocks = step.target.factorization.blocks + step.target.factorization.others
    names = {str(v.name) for v in model.value_vars}
    for block in blocks:
        if block.name not in names:
            raise SettingError(
                f"{block.name!r} is a variable of the step, but not of the model. Pass the model "
                "that the step was built for, as model= or by 'with model:'."
            )
    values = _transformed(posterior_draws(trace, model), model)
    for block in blocks:
        shape = values[block.name].shape[2:]
        if shape != block.shape:
            raise SettingError(
                f"{block.name!r} has shape {shape} in the trace, but {block.shape} in the step, so "
                "they belong to different models. Pass the step that drew this trace."
            )
    return values


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
    results = [
        function(*(np.asarray(draws[str(v.name)][place], v.type.dtype) for v in inputs))
        for place in counted("Transforming draws", list(np.ndindex(shape)))
    ]
    for name, column in zip(moved, zip(*results, strict=True), strict=True):
        values[name] = np.reshape(column, (*shape, *np.shape(column[0])))
    return values


#: Draws of warm-up where a trace does not tell: PyMC's default.
USUAL_TUNE = 1_000


def frozen_as_sampled(
    step: MinibatchStep, trace: xr.DataTree, draws: ValueDraws, rng: np.random.Generator
) -> tuple[Chain, int | None]:
    """Return a chain in the state that a chain of a trace was frozen in, and the label of that one.

    A step that has left it warms up anew, as long as that chain, on draws of the trace: None.
    """
    step.require_unchanged()
    number = chain_in_hand(step, trace)
    if number is not None:
        return step.chain.copy(), number
    count = int(trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE))
    factorization, chain = step.target.factorization, Chain(step.program, rng, step.adapts)
    chains, each = next(iter(draws.values())).shape[:2]
    points = (
        point_of(draws, *divmod(int(place), each))
        for place in rng.integers(chains * each, size=count)
    )
    chain.adapt_on(
        (factorization.ravel(point), factorization.ravel_others(point)) for point in points
    )
    return chain, None


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
#: The way back from a proposal, which ends in a violated bound where these are NaN.
BACK = "acceptance_back", "acceptance_back_mcse"


def places_of(positions: np.ndarray, pairs: int) -> list[tuple[int, int]]:
    """Chains and draws of at least so many pairs, at even distances in every chain."""
    each = -(-pairs // len(positions))
    draws = ((np.arange(each) + 0.5) / each * positions.shape[1]).astype(int)
    return list(product(range(len(positions)), draws.tolist()))


def measured(step: MinibatchStep, draws: ValueDraws, pairs: int, probe: Probe) -> xr.Dataset:
    """Propose from draws that lie evenly in all chains, and measure each move with all rows.

    The entries of the dataset are pairs of draw and proposal, at least so many, with places in the
    trace as ``chain`` and ``draw``. SettingError if a draw has zero density, so that the trace
    cannot be of this model.
    """
    positions = positions_of(draws, step)
    found = []
    for chain, draw in counted("Evaluating pairs", places_of(positions, pairs)):
        point = point_of(draws, chain, draw)
        probe.given(step.target.factorization.ravel_others(point))
        step.target.condition_on(point)
        position = np.ascontiguousarray(positions[chain, draw], dtype=np.float64)
        pair = _measured_pair(step, probe, probe.propose(position), f"draw {draw} of chain {chain}")
        found.append({"chain": chain, "draw": draw, **pair})
    columns = {name: np.array([one[name] for one in found]) for name in found[0]}
    result = xr.Dataset(
        {name: (("pair", "dimension")[: x.ndim], x) for name, x in columns.items()},
        {"dimension": step.target.factorization.coordinate_names},
    )
    return result.assign(errors_of(result))


def _measured_pair(
    step: MinibatchStep, probe: Probe, move: ProposedMove, where: str
) -> dict[str, Any]:
    possible = np.isfinite(move.cheap)
    rows = probe.rows(move) if possible else UNREAD
    _require_possible(step, move, rows, where)
    there = probe.acceptance(move) if possible else REJECTED
    # Where the proposal has zero density, the way back starts outside the posterior.
    back = probe.acceptance(move.back) if np.isfinite(rows.log_ratio) else REJECTED
    bounded = rows.bound_row >= 0
    term, row = step.target.term_and_row(rows.bound_row) if bounded else ("", -1)
    return {
        "position": move.position,
        "proposal": move.new,
        "acceptance": there.mean,
        "acceptance_mcse": there.mcse,
        "rows_read": there.rows,
        "fewest_rows": there.fewest_rows,
        "acceptance_back": back.mean,
        "acceptance_back_mcse": back.mcse,
        **rows._asdict(),
        "bound_term": term,
        "bound_row": row,
    }


def errors_of(pairs: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return the errors of the acceptance probabilities, and their Monte Carlo standard errors.

    With a and a' the test's probabilities there and back and Δ the exact log ratio, an error is
    a - σ(Δ)(a + a'), σ the logistic function: 0 where the pair is in detailed balance.
    """
    backward = xr.apply_ufunc(expit, pairs["log_ratio"])
    forward = 1.0 - backward
    back, back_mcse = (pairs[name].fillna(0.0) for name in BACK)
    return {
        "acceptance_error": forward * pairs["acceptance"] - backward * back,
        "acceptance_error_mcse": np.hypot(forward * pairs["acceptance_mcse"], backward * back_mcse),
    }


def _require_possible(
    step: MinibatchStep, move: ProposedMove, rows: RowsOfMove, where: str
) -> None:
    target, position = step.target, move.position
    if np.isfinite(rows.log_ratio):
        return
    if np.isfinite(target.log_prior(position)) and np.isfinite(target.log_likelihood(position)):
        return
    raise SettingError(
        f"{names_of_terms(target.factorization)}: {where} has zero density in the step's model, so "
        "another model or other data drew the trace. Pass the step that drew it."
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
    rates: np.ndarray, trace: xr.DataTree, number: int | None, times: np.ndarray
) -> Accepted:
    """Compare `rates` of acceptance of audited moves with those of the updates of a trace.

    Draws of another posterior may lie where every move is rejected, so that nothing drifts; but
    the chain of the trace moved. Moves that ended in a violated bound are left out, and updates
    count at the last temperature. `number` is the chain whose frozen state proposed, None for a
    warm-up that was run anew: its moves may be accepted more often, and half as often. `times` are
    autocorrelation times between draws, of all moments.
    """
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


def moved(pairs: xr.Dataset, draws: np.ndarray) -> Accepted:
    """Compare how many coordinates move in whole iterations with how many do between draws.

    These are of shape (chain, draw, d). As often as the trace's own, iterations move at least half
    of what moves between draws that may be several iterations apart.
    """
    changed = pairs["proposal"].to_numpy() != pairs["position"].to_numpy()
    own, theirs = float(changed.mean()), float((np.diff(draws, axis=1) != 0.0).mean())
    least, count = ANEW * theirs, float(pairs.sizes["pair"])
    return Accepted(own, theirs, _log_chance(own, count, least, count) if own < least else 0.0)


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


def bias_of(draws: np.ndarray, pairs: xr.Dataset, first: int, updates_per_draw: int) -> xr.Dataset:
    """Estimate the bias of mean and standard deviation of every coordinate that a step moves.

    `draws` are all of the position, shape (chain, draw, d), whose coordinates are moved from
    `first` on. Moves that ended in a violated bound are left out. By moment and coordinate:

    - ``bias`` and ``bias_mcse``, its Monte Carlo standard error, in standard deviations of the
      draws; that of the standard deviation itself is half the relative bias of the variance;
    - ``bias_bound``, with the absolute value of every pair's contribution, noise included;
    - ``drift``, the mean change of the moment in an update, in units of its standard error: about
      standard normal, if draws are what the update leaves them. Of few effective pairs it is
      Student's t, in the normal quantile of the same probability;
    - ``autocorrelation_time``, the integrated one, between draws.
    """
    own = draws[..., first:]
    centre, scale = own.mean(axis=(0, 1)), own.std(axis=(0, 1))
    usable = pairs.isel(pair=np.isfinite(pairs["acceptance_error"].to_numpy()))

    def moments(positions: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (positions[..., first:] - centre) / scale
        # Half of the square: a change of the variance in units of twice itself.
        return np.stack([z, 0.5 * z * z], axis=-2)

    change = moments(usable["proposal"].to_numpy()) - moments(usable["position"].to_numpy())
    values = moments(draws)
    contribution = usable["acceptance_error"].to_numpy()[:, None, None] * change
    drift = usable["acceptance"].to_numpy()[:, None, None] * change
    array = xr.DataArray(values, dims=("chain", "draw", "moment", "coordinate"))
    effective = az.ess(array, method="mean").to_numpy()
    time = draws.shape[0] * draws.shape[1] / effective
    gap = np.clip(np.mean(drift * change, axis=0) / (2.0 * values.var(axis=(0, 1))), LEAST_GAP, 2.0)
    factor = 0.5 * (1.0 + time) * (1.0 - (1.0 - gap) ** updates_per_draw) / gap
    # Pairs from dependent draws say less than their number.
    count = np.minimum(usable.sizes["pair"], effective)
    with np.errstate(invalid="ignore"):
        t = np.mean(drift, axis=0) / (np.std(drift, axis=0) / np.sqrt(count))
    found = {
        "bias": factor * np.mean(contribution, axis=0),
        "bias_mcse": factor * np.std(contribution, axis=0) / np.sqrt(count),
        "bias_bound": factor * np.mean(np.abs(contribution), axis=0),
        "drift": as_normal(t, count - 1.0),
        "autocorrelation_time": time,
    }
    return xr.Dataset(
        {name: (("moment", "coordinate"), x) for name, x in found.items()},
        {"moment": list(MOMENTS), "coordinate": pairs["dimension"].to_numpy()[first:]},
    )


def as_normal(t: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    """Return the normal quantiles of the probabilities of Student's t."""
    tail = np.maximum(stdtr(np.maximum(freedom, 1.0), -np.abs(t)), LEAST_TAIL)
    return np.copysign(ndtri(tail), t)


#: Largest t that :func:`log_density_drift` tries.
LARGEST_TILT = 20.0
#: Pairs below which an autocorrelation says nothing.
FEWEST_PAIRS = 8


def log_density_drift(pairs: xr.Dataset, exact: bool) -> float:
    """Drift of the log-density in an update: a standard normal z, above zero where it rises.

    In detailed balance a pair is in its direction rather than the opposite one with probability
    1 - s, s = a/(a + a') the direction's share of the acceptance. So the mean of s Δ is zero, with
    a variance that s and Δ tell: draws need not show its tail. The result is the signed root of
    twice the log-likelihood ratio of draws from p^(1-t), at the best t, to draws from p.

    An exact test has s = σ(Δ), and `pairs` of whole iterations s = 1/2; from others of the sampler
    the measured error of the test is added to σ(Δ).
    """
    known = np.isfinite(pairs["log_ratio"].to_numpy())
    change = pairs["log_ratio"].to_numpy()[known]
    odds, error, noise = change, np.zeros_like(change), np.zeros_like(change)
    if "acceptance_back" not in pairs:
        odds = np.zeros_like(change)
    elif not exact:
        error, noise = (x[known] for x in _errors_of_shares(pairs))
    share = expit(odds)
    contribution = change * (share + error)
    total, variance = contribution.sum(), np.sum((change * noise) ** 2)

    def log_chance(t: float) -> float:
        """Chernoff's bound of the log probability of so large a sum, for one t."""
        forth = log_expit(-odds) + t * share * change
        back = log_expit(odds) - t * (1.0 - share) * change
        return float(np.logaddexp(forth, back).sum() + 0.5 * t * t * variance - t * total)

    sign = math.copysign(1.0, total)
    best = minimize_scalar(
        lambda t: log_chance(sign * t), bounds=(0.0, LARGEST_TILT), method="bounded"
    )
    return sign * math.sqrt(max(-2.0 * float(best.fun) * _independent(contribution), 0.0))


def _errors_of_shares(pairs: xr.Dataset) -> list[np.ndarray]:
    """Errors of shares of the acceptance beside σ(Δ), and their Monte Carlo standard errors."""
    both = pairs["acceptance"] + pairs["acceptance_back"].fillna(0.0)
    errors = [pairs[name] / both for name in ("acceptance_error", "acceptance_error_mcse")]
    return [np.nan_to_num(one.to_numpy(), posinf=0.0, neginf=0.0) for one in errors]


def _independent(series: np.ndarray) -> float:
    """Share of a series that counts as independent draws."""
    if series.size < FEWEST_PAIRS or np.ptp(series) == 0.0:
        return 1.0
    return min(float(az.ess(series[None], method="mean")) / series.size, 1.0)
