"""Proposals from draws of a trace, measured with all observations: docs/after.md has the maths."""

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, ndtri, rel_entr, stdtr

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.kernel_probe import Acceptance, MoveSummary, Probe
from pymc_minibatch_mh.compiled.graphs import term_names
from pymc_minibatch_mh.diagnostics.draws import (
    Draws,
    posterior_draws,
    track_progress,
    transformed_draws,
)
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.steps.base import MinibatchStep


def point_of_draw(draws: Draws, chain: int, draw: int) -> dict[str, np.ndarray]:
    """One draw as a point of the model."""
    return {name: values[chain, draw] for name, values in draws.items()}


def positions_of(draws: Draws, step: MinibatchStep) -> np.ndarray:
    """Positions of a step at all draws of value variables, shape (chain, draw, d)."""
    factorization = step.target.factorization
    parts = [b.flat(draws[b.name]) for b in factorization.blocks]
    return factorization.positions(np.concatenate(parts, axis=-1))


def value_draws(trace: xr.DataTree, model: pm.Model, step: MinibatchStep) -> Draws:
    """Draws of a chain's value variables; SettingError if trace, model and step differ."""
    blocks = step.target.factorization.blocks + step.target.factorization.others
    names = {str(v.name) for v in model.value_vars}
    for block in blocks:
        if block.name not in names:
            raise SettingError(
                f"{block.name!r} is a variable of the step, but not of the model. Pass the model "
                "that the step was built for, as model= or by 'with model:'."
            )
    # Effects that are integrated out are not part of the chain.
    effects = {b.name for b in step.target.factorization.integrated} - {b.name for b in blocks}
    values = transformed_draws(posterior_draws(trace, model, effects), model)
    for block in blocks:
        shape = values[block.name].shape[2:]
        if shape != block.shape:
            raise SettingError(
                f"{block.name!r} has shape {shape} in the trace, but {block.shape} in the step, so "
                "they belong to different models. Pass the step that drew this trace."
            )
    return values


#: Number of warm-up draws assumed for a trace without that attribute: PyMC's default.
USUAL_TUNE = 1_000


def frozen_chain(
    step: MinibatchStep, trace: xr.DataTree, draws: Draws, rng: np.random.Generator
) -> tuple[Chain, int | None]:
    """Frozen chain that drew a trace, and its label; or a chain warmed up on its draws and None."""
    step.require_unchanged()
    label = frozen_label(step, trace)
    if label is not None:
        return step.chain.copy(), label
    count = int(trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE))
    factorization, chain = step.target.factorization, Chain(step.program, rng, step.adapts)
    chains, each = next(iter(draws.values())).shape[:2]
    points = (
        point_of_draw(draws, *divmod(int(index), each))
        for index in rng.integers(chains * each, size=count)
    )
    chain.adapt_on(
        (factorization.ravel(point), factorization.ravel_others(point)) for point in points
    )
    return chain, None


def frozen_label(step: MinibatchStep, trace: xr.DataTree) -> int | None:
    """Label of the trace's chain whose frozen state the step still has, or None."""
    drawn = trace["posterior"].attrs.get("tuning_steps", USUAL_TUNE) + trace.posterior.sizes["draw"]
    if step.chain.state.adapting or step.chain.state.n_draws != drawn:
        return None
    last = trace["sample_stats"]["scaling"].isel(draw=-1)
    # The adapted scale identifies the chain; of several chains with it, the last one ran last.
    for chain in reversed(last["chain"].to_numpy()):
        if (last.sel(chain=chain).to_numpy() == step.chain.scaling).any():
            return int(chain)
    return None


def measure_pairs(
    step: MinibatchStep,
    draws: Draws,
    pairs: int,
    label: str,
    measure: Callable[[np.ndarray, np.ndarray, str], dict[str, Any]],
) -> xr.Dataset:
    """Measurements of at least `pairs` draws and proposals, evenly spread over the trace.

    `measure` takes a position, the values of all other variables, and the name of the draw.
    """
    positions, factorization = positions_of(draws, step), step.target.factorization
    each = -(-pairs // len(positions))
    even = ((np.arange(each) + 0.5) / each * positions.shape[1]).astype(int).tolist()
    rows = []
    for chain, draw in track_progress(label, list(product(range(len(positions)), even))):
        point = point_of_draw(draws, chain, draw)
        step.target.condition_on(point)
        position = np.ascontiguousarray(positions[chain, draw], dtype=np.float64)
        others = factorization.ravel_others(point)
        pair = measure(position, others, f"draw {draw} of chain {chain}")
        rows.append({"chain": chain, "draw": draw, "position": position, **pair})
    columns = {name: np.array([one[name] for one in rows]) for name in rows[0]}
    return xr.Dataset(
        {name: (("pair", "dimension")[: x.ndim], x) for name, x in columns.items()},
        {"dimension": factorization.coordinate_names},
    )


#: Results for a proposal of zero density, which is rejected without evaluating observations.
REJECTED = Acceptance(0.0, 0.0, 0.0, np.nan)
UNREAD = MoveSummary(-np.inf, np.nan, np.nan, np.nan, np.nan, np.nan, -1)


def measure_decisions(step: MinibatchStep, draws: Draws, pairs: int, probe: Probe) -> xr.Dataset:
    """Accept/reject decisions from draws, measured with all rows; SettingError for zero density."""

    def measure_decision(position: np.ndarray, others: np.ndarray, where: str) -> dict[str, Any]:
        probe.fix_others(others)
        move = probe.propose(position)
        possible = np.isfinite(move.cheap)
        rows = probe.rows(move) if possible else UNREAD
        if not np.isfinite(rows.log_ratio):
            _require_density(step, position, where)
        forth = probe.acceptance(move) if possible else REJECTED
        # The reverse proposal cannot start at a point of zero density.
        back = probe.acceptance(move.reverse_move) if np.isfinite(rows.log_ratio) else REJECTED
        return {
            "proposal": move.new,
            "acceptance": forth.mean,
            "acceptance_mcse": forth.mcse,
            "rows_read": forth.rows,
            "fewest_rows": forth.fewest_rows,
            "acceptance_back": back.mean,
            "acceptance_back_mcse": back.mcse,
            **rows._asdict(),
            **_locate_row(step, rows.bound_row),
        }

    result = measure_pairs(step, draws, pairs, "Evaluating pairs", measure_decision)
    return result.assign(errors_of(result))


def measure_iterations(step: MinibatchStep, draws: Draws, pairs: int, chain: Chain) -> xr.Dataset:
    """Iterations from draws of a trace, each measured as one accepted proposal with all rows.

    An iteration makes a decision for every effect, which no single decision represents. Tests are
    exact, so acceptance probabilities have no error.
    """
    plan, target = step.plan, step.target

    def log_density(position: np.ndarray) -> float:
        tempered = target.inverse_temperature * target.log_likelihood(position)
        return target.log_prior(position) + tempered

    def measure_iteration(position: np.ndarray, others: np.ndarray, where: str) -> dict[str, Any]:
        chain.place(position, others)
        end = chain.advance(1).positions[0]
        ratio, worst = plan.bound_ratio(position, end)
        return {
            "proposal": end,
            "log_ratio": log_density(end) - log_density(position),
            "bound_ratio": ratio,
            **_locate_row(step, worst),
            "acceptance": 1.0,
            "acceptance_error": 0.0,
            "acceptance_error_mcse": 0.0,
        }

    return measure_pairs(step, draws, pairs, "Evaluating iterations", measure_iteration)


def _locate_row(step: MinibatchStep, row: int) -> dict[str, Any]:
    """Term of a row, and its number within that term; "" and -1 for row -1."""
    term, number = step.target.term_and_row(row) if row >= 0 else ("", -1)
    return {"bound_term": term, "bound_row": number}


def _require_density(step: MinibatchStep, position: np.ndarray, where: str) -> None:
    target = step.target
    if np.isfinite(target.log_prior(position)) and np.isfinite(target.log_likelihood(position)):
        return
    raise SettingError(
        f"{term_names(target.factorization)}: {where} has zero density in the step's model, so "
        "another model or other data drew the trace. Pass the step that drew it."
    )


def errors_of(pairs: xr.Dataset) -> dict[str, xr.DataArray]:
    """Errors a - σ(Δ)(a + a') of the acceptance probabilities, and their standard errors.

    a and a' are the probabilities of a proposal and of its reverse (NaN after a violated bound), Δ
    is the exact log ratio, and σ the logistic function. Detailed balance implies errors of 0.
    """
    backward = xr.apply_ufunc(expit, pairs["log_ratio"])
    forward = 1.0 - backward
    back, back_mcse = (pairs[f"acceptance_back{x}"].fillna(0.0) for x in ("", "_mcse"))
    return {
        "acceptance_error": forward * pairs["acceptance"] - backward * back,
        "acceptance_error_mcse": np.hypot(forward * pairs["acceptance_mcse"], backward * back_mcse),
    }


#: Minimum ratio of an audited rate to the trace's rate. It is below 1 because acceptance rates vary
#: between warm-ups, and because changes accumulate if draws are several iterations apart.
MIN_SHARE = 0.5


class Rates(NamedTuple):
    """Rates of acceptance of the audited proposals and of the updates of the trace."""

    pairs: float
    trace: float
    #: Upper bound of the log probability of this difference; 0 if the difference is no error.
    log_chance: float


def compare_rates(
    rates: np.ndarray, trace: xr.DataTree, label: int | None, times: np.ndarray
) -> Rates:
    """Compare acceptance `rates` of audited proposals with a trace's rate at its last temperature.

    If draws of another posterior reject every proposal, nothing drifts, but the rates differ.
    Without a `label`, after another warm-up, only less than half of the trace's rate is an error.
    `times` are the autocorrelation times of all moments, in draws.
    """
    rates = rates[np.isfinite(rates)]
    audited = float(rates.mean()) if rates.size else 0.0
    shares = _accepted_shares(trace, label)
    # A compound step records the rates of all its steps: compare with the closest rate.
    of_steps = [float(share.mean()) for share in shares]
    k = int(np.argmin(np.abs(np.array(of_steps) - audited)))
    traced, size = of_steps[k], shares[k].size
    slowest = float(np.max(times, initial=1.0, where=np.isfinite(times)))
    effective = min(float(az.ess(shares[k], method="mean")), size / slowest)
    least = traced if label is not None else MIN_SHARE * traced
    chance = 0.0
    if label is not None or audited < least:
        # Proposals from autocorrelated draws carry less information than their number suggests.
        chance = _log_chance(audited, min(rates.size, effective), least, effective)
    return Rates(audited, traced, chance)


def compare_changes(pairs: xr.Dataset, draws: np.ndarray) -> Rates:
    """Compare shares of changed coordinates: in audited iterations, between draws of the trace."""
    changed = pairs["proposal"].to_numpy() != pairs["position"].to_numpy()
    audited, traced = float(changed.mean()), float((np.diff(draws, axis=1) != 0.0).mean())
    least, count = MIN_SHARE * traced, float(pairs.sizes["pair"])
    chance = _log_chance(audited, count, least, count) if audited < least else 0.0
    return Rates(audited, traced, chance)


def _accepted_shares(trace: xr.DataTree, label: int | None) -> list[np.ndarray]:
    """Shares of accepted updates at the last temperature, shape (chain, draw), of each step."""
    share, temperature = (trace["sample_stats"][name] for name in ("accepted_share", "temperature"))
    if label is not None:
        share, temperature = share.sel(chain=[label]), temperature.sel(chain=[label])
    chains, draws = share.sizes["chain"], share.sizes["draw"]
    values = share.to_numpy().reshape(chains, draws, -1)
    temperatures = temperature.to_numpy().reshape(chains, draws, -1)
    last = (temperatures == temperatures[:, -1:]).all(axis=(0, 2))
    return list(np.moveaxis(values[:, last], -1, 0))


def _log_chance(rate: float, count: float, other: float, other_count: float) -> float:
    """Chernoff's bound -n KL(p | m) - n' KL(p' | m) for two rates p, p' with pooled mean m."""
    mean = (count * rate + other_count * other) / (count + other_count)
    return -(count * _kl_divergence(rate, mean) + other_count * _kl_divergence(other, mean))


def _kl_divergence(rate: float, mean: float) -> float:
    return float(rel_entr(rate, mean) + rel_entr(1.0 - rate, 1.0 - mean))


#: Moments whose bias is estimated, in standard deviations of the draws.
MOMENTS = ("mean", "sd")
#: `MIN_GAP`: minimum of 1 - ρ for an autocorrelation ρ. `MIN_TAIL`: minimum tail probability.
MIN_GAP, MIN_TAIL = 1e-9, 1e-300


def bias_of(draws: np.ndarray, pairs: xr.Dataset, first: int, updates_per_draw: int) -> xr.Dataset:
    """Bias of the mean and the standard deviation of every coordinate that a step moves.

    `draws` are positions, shape (chain, draw, d), whose coordinates are moved from `first` on.
    Proposals that ended in a violated bound are left out. By moment and coordinate:

    - ``bias`` and ``bias_mcse``, its Monte Carlo standard error, in standard deviations of the
      draws; the bias of the standard deviation is half the relative bias of the variance;
    - ``bias_bound``, computed from the absolute contributions of all pairs, noise included;
    - ``drift``, the mean change of the moment in an update over its standard error: about standard
      normal if the update leaves the distribution of the draws invariant. For few effective pairs,
      Student's t is converted to the normal quantile of the same probability;
    - ``autocorrelation_time``, the integrated autocorrelation time in draws.
    """
    moved = draws[..., first:]
    centre, scale = moved.mean(axis=(0, 1)), moved.std(axis=(0, 1))
    usable = pairs.isel(pair=np.isfinite(pairs["acceptance_error"].to_numpy()))

    def moments_of(positions: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (positions[..., first:] - centre) / scale
        # Half of the squared z-score: its mean changes by half the relative change of the variance.
        return np.stack([z, 0.5 * z * z], axis=-2)

    change = moments_of(usable["proposal"].to_numpy()) - moments_of(usable["position"].to_numpy())
    values = moments_of(draws)
    contribution = usable["acceptance_error"].to_numpy()[:, None, None] * change
    drift = usable["acceptance"].to_numpy()[:, None, None] * change
    array = xr.DataArray(values, dims=("chain", "draw", "moment", "coordinate"))
    effective = az.ess(array, method="mean").to_numpy()
    time = draws.shape[0] * draws.shape[1] / effective
    gap = np.clip(np.mean(drift * change, axis=0) / (2.0 * values.var(axis=(0, 1))), MIN_GAP, 2.0)
    factor = 0.5 * (1.0 + time) * (1.0 - (1.0 - gap) ** updates_per_draw) / gap
    # Pairs from autocorrelated draws carry less information than their number suggests.
    count = np.minimum(usable.sizes["pair"], effective)
    with np.errstate(invalid="ignore"):
        t = np.mean(drift, axis=0) / (np.std(drift, axis=0) / np.sqrt(count))
    estimates = {
        "bias": factor * np.mean(contribution, axis=0),
        "bias_mcse": factor * np.std(contribution, axis=0) / np.sqrt(count),
        "bias_bound": factor * np.mean(np.abs(contribution), axis=0),
        "drift": as_normal(t, count - 1.0),
        "autocorrelation_time": time,
    }
    return xr.Dataset(
        {name: (("moment", "coordinate"), x) for name, x in estimates.items()},
        {"moment": list(MOMENTS), "coordinate": pairs["dimension"].to_numpy()[first:]},
    )


def as_normal(t: np.ndarray, freedom: np.ndarray | float) -> np.ndarray:
    """Normal quantiles with the same tail probabilities as values of Student's t."""
    tail = np.maximum(stdtr(np.maximum(freedom, 1.0), -np.abs(t)), MIN_TAIL)
    return np.copysign(ndtri(tail), t)


#: Maximum t in :func:`log_density_drift`.
MAX_TILT = 20.0
#: Minimum number of pairs for an autocorrelation.
MIN_PAIRS = 8


def log_density_drift(pairs: xr.Dataset, exact: bool) -> float:
    """Drift of the log-density in an update: a standard normal z, positive if it rises.

    In detailed balance the mean of s Δ is zero, with s = a/(a + a') the direction's share of the
    acceptance: σ(Δ) for exact tests, 1/2 for iterations, and σ(Δ) plus the measured error for
    others. z is the signed root of twice the log-likelihood ratio of draws from p^(1-t), at the
    best t, to draws from p.
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
        """Chernoff's bound, with parameter t, of the log probability of a sum beyond `total`."""
        forth = log_expit(-odds) + t * share * change
        back = log_expit(odds) - t * (1.0 - share) * change
        return float(np.logaddexp(forth, back).sum() + 0.5 * t * t * variance - t * total)

    sign = math.copysign(1.0, total)
    best = minimize_scalar(lambda t: log_chance(sign * t), bounds=(0.0, MAX_TILT), method="bounded")
    return sign * math.sqrt(max(-2.0 * float(best.fun) * _independent_share(contribution), 0.0))


def _errors_of_shares(pairs: xr.Dataset) -> list[np.ndarray]:
    """Errors a/(a + a') - σ(Δ), 0 if a + a' = 0, and their Monte Carlo standard errors."""
    both = pairs["acceptance"] + pairs["acceptance_back"].fillna(0.0)
    errors = [pairs[name] / both for name in ("acceptance_error", "acceptance_error_mcse")]
    return [np.nan_to_num(one.to_numpy(), posinf=0.0, neginf=0.0) for one in errors]


def _independent_share(series: np.ndarray) -> float:
    """Effective sample size of a series, as a share of its length."""
    if series.size < MIN_PAIRS or np.ptp(series) == 0.0:
        return 1.0
    return min(float(az.ess(series[None], method="mean")) / series.size, 1.0)
