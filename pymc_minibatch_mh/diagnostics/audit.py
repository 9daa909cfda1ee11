"""Audit after sampling: the sampler's own error, measured with all observations."""

import logging
import math
import time
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr
from scipy.special import ndtri

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.kernel_probe import Probe
from pymc_minibatch_mh.checks import check_integer
from pymc_minibatch_mh.compiled.graphs import term_names
from pymc_minibatch_mh.diagnostics.bias import (
    Rates,
    bias_of,
    compare_changes,
    compare_rates,
    frozen_chain,
    log_density_drift,
    measure_decisions,
    measure_iterations,
    positions_of,
    value_draws,
)
from pymc_minibatch_mh.diagnostics.draws import Draws, require_trace
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.inputs import as_generator, resolve_model
from pymc_minibatch_mh.progress import show_progress
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps.base import MinibatchStep, model_behind, step_of

_log = logging.getLogger("pymc")

#: `MAX_BIAS`: in standard deviations of the draws (95 % intervals then cover 94.9 %). `MARGIN` of a
#: bias, in standard errors. `MAX_ROUNDING`: maximum bias of exact tests, by rounding errors.
MAX_BIAS, MARGIN, MAX_ROUNDING = 0.1, 2.0, 1e-6
#: Probability of a false report of a bias, a drift, or a difference of rates.
FALSE_ALARM = 1e-3
#: Estimated error of an acceptance probability (first Edgeworth term) above which the verdict is a
#: warning or a failure. `EDGEWORTH`: maximum of that term divided by skewness/√b, φ(0)/6.
EDGEWORTH_WARN, EDGEWORTH_FAIL = 0.01, 0.05
EDGEWORTH = 1.0 / (6.0 * math.sqrt(2.0 * math.pi))
#: Limits for a warning. `MAX_PULL`: size of an observation in standard deviations of a batch's sum.
#: `MIN_TOP_ROWS`: observations that carry half of a batch's variance. `MAX_FULL_PASSES` and
#: `MAX_INVALID`: shares of updates with a full-data evaluation and with an invalid proposal.
MAX_PULL, MIN_TOP_ROWS, MAX_FULL_PASSES, MAX_INVALID = 1.0, 10.0, 0.1, 0.1
#: Standard deviation of the log ratio's noise below which its shape hardly matters.
MIN_NOISE = 0.1
#: `MIN_DRAWS`: draws per chain for autocorrelations. `MIN_PAIRS` to `MAX_PAIRS`: pairs by default.
MIN_DRAWS, MIN_PAIRS, MAX_PAIRS = 50, 50, 200
#: Expected seconds of an audit above which the log announces its duration.
MAX_SILENT_SECONDS = 5.0
#: Attribute ``state`` of an audit whose chain was adapted again, after sampling.
ANEW = "adapted anew, on draws of the trace"
#: Checks, in the order in which they are reported.
CHECKS = ("bounds", "bias", "drift", "acceptance", "normality", "trace")


class Verdict(NamedTuple):
    """A verdict (ok, warn or fail), and a message with variable, cause and fix."""

    verdict: str
    message: str


ok, warn, fail = (partial(Verdict, verdict) for verdict in ("ok", "warn", "fail"))


def updates_per_draw(step: MinibatchStep, trace: xr.DataTree) -> int:
    """Number of updates per draw of a trace; a trace of `pm.sample` has the number of the step."""
    return int(trace["posterior"].attrs.get("updates_per_draw", step.updates_per_draw))


def judge_bounds(step: MinibatchStep, pairs: xr.Dataset) -> Verdict:
    """Verdict on the bounds, if the method has any: no observation may exceed its bound."""
    ratios, exact = pairs["bound_ratio"].to_numpy(), step.guarantee.is_exact
    if step.plan.bounds is None:
        return ok(f"{type(step).__name__} needs no bounds.")
    if np.isnan(ratios).all():
        return warn(
            f"{term_names(step.target.factorization)}: bounds hold for none of the pairs, so "
            f"every decision evaluates all observations. {'The draws are exact, but ' * exact}"
            "PenaltyMH() or pm.NUTS() would be quicker."
        )
    worst = int(np.nanargmax(ratios))
    name, row = str(pairs["bound_term"].values[worst]), int(pairs["bound_row"][worst])
    if ratios[worst] <= 1.0:
        return ok(
            f"No observation exceeds its bound; observation {row} of {name!r} comes closest, at "
            f"{ratios[worst]:.3g}."
        )
    own = step.plan.requirements.derives_bounds
    return fail(
        f"{name!r}: observation {row} changes by {ratios[worst]:.3g} times its bound in pair "
        f"{worst}, so {'the draws are not exact' if exact else 'bounds control no error'}. "
        + ("Please report it; " if own else "Enlarge your own bounds, or leave them out; ")
        + "PenaltyMH() needs no bounds."
    )


def judge_bias(step: MinibatchStep, found: xr.Dataset) -> Verdict:
    """Verdict on the bias of the posterior's moments."""
    bias, mcse = found["bias"].to_numpy(), found["bias_mcse"].to_numpy()
    names = found["coordinate"].values.tolist()
    if not np.isfinite(bias).all():
        return fail(
            f"{names[int(np.argwhere(~np.isfinite(bias))[0, 1])]!r} does not move in this trace, "
            "or in none of the pairs. Sample longer, from overdispersed_initvals(step, chains)."
        )
    surely = np.abs(bias) + ndtri(0.5 * FALSE_ALARM / bias.size) * mcse
    possibly = np.abs(bias) + MARGIN * mcse
    exact = step.guarantee.is_exact
    proven = surely > (MAX_ROUNDING if exact else MAX_BIAS)
    worst = np.unravel_index(np.argmax(surely if proven.any() else possibly), possibly.shape)
    what = (
        f"{names[worst[1]]!r}: the estimated bias of its posterior "
        f"{found['moment'].values[worst[0]]} is {bias[worst]:+.2g} ± {mcse[worst]:.2g} sd"
    )
    if proven.any():
        fix = (
            "An exact method must not show one: see the check 'bounds', and please report it."
            if exact
            else "Use TunaMH(), or larger batches: a larger batch_size, a smaller epsilon or sigma."
        )
        return fail(f"{what}: decisions of batches differ from those of the full data. {fix}")
    if possibly[worst] > MAX_BIAS:
        return warn(
            f"{what}, so a bias of {MAX_BIAS} sd cannot be excluded. Audit more pairs, or "
            "sample longer if the chain moves slowly."
        )
    return ok(f"{what}; no parameter has a larger one.")


#: Cause and remedy, for messages about a drift and about differing acceptance rates.
ANOTHER_TRACE = (
    "the chains have not converged, or another step, model or data drew the trace. Sample longer, "
    "or pass the step that drew this trace, and all of its draws."
)


def drift_limit(size: int) -> float:
    """Maximum |z| with which the drifts of `size` moments and of the log-density pass."""
    return float(-ndtri(0.5 * FALSE_ALARM / (size + 1)))


def judge_drift(found: xr.Dataset) -> Verdict:
    """Verdict on whether the draws have the invariant distribution of the sampler."""
    drift, joint = found["drift"].to_numpy(), float(found["log_density_drift"])
    surely = drift_limit(drift.size)
    worst = np.unravel_index(np.argmax(np.nan_to_num(np.abs(drift))), drift.shape)
    names = found["coordinate"].values.tolist()
    moment, name = found["moment"].values[worst[0]], names[worst[1]]
    z = np.nan_to_num(drift[worst])
    if abs(z) > surely:
        return fail(
            f"{name!r}: further updates would change its {moment} (z = {z:+.1f}): {ANOTHER_TRACE}"
        )
    if abs(joint) > surely:
        variables = dict.fromkeys(name.split("[")[0] for name in names)
        return fail(
            f"{', '.join(map(repr, variables))}: further updates would change the log-density (z = "
            f"{joint:+.1f}), although each mean and sd would stay: {ANOTHER_TRACE}"
        )
    return ok(
        f"{name!r}: its {moment} drifts most, by {abs(z):.1f} standard errors; the log-density "
        f"drifts by {abs(joint):.1f}."
    )


def judge_acceptance(rates: Rates) -> Verdict:
    """Verdict on the rates of acceptance of audited proposals and of the trace."""
    what = (
        f"{rates.pairs:.3g} of the audited proposals are accepted, {rates.trace:.3g} in the trace"
    )
    if rates.log_chance > math.log(0.5 * FALSE_ALARM):
        return ok(f"{what}.")
    return fail(f"{what}: {ANOTHER_TRACE}")


def judge_normality(step: MinibatchStep, pairs: xr.Dataset, n_top: int) -> Verdict:
    """Verdict on the normality of sums over batches, which approximate tests assume."""
    n_rows = step.plan.n_drawn
    if step.guarantee.is_exact:
        return ok(f"{type(step).__name__} does not assume normal sums over batches.")
    batch = pairs["fewest_rows"].to_numpy() - (step.plan.n_rows - n_rows)
    part = np.isfinite(batch) & (2.0 * batch < n_rows) & np.isfinite(pairs["skewness"].to_numpy())
    part &= pairs["variance"].to_numpy() > 0.0
    if not part.any():
        return ok("Every decision evaluated all observations.")
    rows = {name: x.to_numpy()[part] for name, x in pairs.data_vars.items()}
    batch, skewness = batch[part], np.abs(rows["skewness"])
    beta = step.plan.reference.inverse_temperature
    noise = beta * n_rows * np.sqrt(rows["variance"] * (1.0 / batch - 1.0 / n_rows))
    # The shape of small noise has a small effect on a smooth acceptance probability.
    weight = np.minimum(1.0, noise**3)
    edgeworth = float(np.mean(weight * EDGEWORTH * skewness / np.sqrt(batch)))
    mattering = noise > MIN_NOISE
    if not mattering.any():
        return ok(
            f"The noise of a batch in the log ratio has an sd of {noise.max():.2g} at most, too "
            "little for its shape to matter."
        )
    pull = float(np.median(np.sqrt(rows["largest_share"] * n_rows / batch)[mattering]))
    half = np.mean(rows["top_share"][mattering] > 0.5)
    top_rows = float(np.median(batch[mattering])) * n_top / n_rows
    enough = bool(half <= 0.5) or top_rows >= MIN_TOP_ROWS
    what = (
        f"{term_names(step.target.factorization)}: skewness {np.median(skewness):.2g} in "
        f"batches of {np.median(batch):.0f} observations, an error of about {edgeworth:.1g} in the "
        f"acceptance probability; the largest observation is worth {pull:.2g} sd of a batch"
    )
    fix = "Raise batch_size, give rare observations a likelihood of their own, or use TunaMH()."
    if edgeworth > EDGEWORTH_FAIL:
        return fail(f"{what}: sums over batches are not normal. {fix}")
    if edgeworth > EDGEWORTH_WARN or pull > MAX_PULL or not enough:
        rare = f", and {top_rows:.1f} observations of a batch carry half of its variance"
        return warn(f"{what}{'' if enough else rare}: sums over batches are hardly normal. {fix}")
    return ok(f"{what}.")


def judge_trace(step: MinibatchStep, trace: xr.DataTree) -> Verdict:
    """Verdict on full-data evaluations, invalid proposals, proved bounds and the temperature."""
    stats = {name: x.to_numpy() for name, x in trace["sample_stats"].data_vars.items()}
    updates = updates_per_draw(step, trace)
    full, invalid = (float(np.mean(stats.get(x, 0.0))) / updates for x in ("full_pass", "invalid"))
    certified = bool(np.all(stats.get("certified", True)))
    temperatures = np.unique(stats.get("temperature", 1.0))
    names = term_names(step.target.factorization)
    problems = []
    if step.guarantee.is_exact and not certified:
        problems.append(
            f"{names}: not all draws are proved to be exact, because bounds= are your own or an "
            "observation exceeded its bound. Leave bounds= out to have them derived."
        )
    if (temperatures != 1.0).any():
        problems.append(
            f"{names}: its likelihood was raised to the power 1/{temperatures.max():.3g}, so the "
            "draws are not from the posterior. Leave temperature= out, or reweight the draws."
        )
    if full > MAX_FULL_PASSES and not step.program.method.reads_all_rows:
        groups = ", such as fewer groups" if step.target.n_elements else ""
        problems.append(
            f"{names}: {full:.0%} of the updates evaluate all observations, because the control "
            "variates leave too much noise. Subsampling gains little here: use pm.NUTS(), or fewer "
            f"parameters with more observations each{groups}."
        )
    if invalid > MAX_INVALID:
        problems.append(
            f"{names}: {invalid:.0%} of the proposals have a log-density that is not finite. "
            "Use variables with a transform, or a smaller scale of the proposal."
        )
    if problems:
        return warn(" ".join(problems))
    return ok(
        f"{full:.1%} of the updates evaluate all observations, {invalid:.1%} of the proposals lie "
        "outside the support."
    )


def require_stats(trace: xr.DataTree) -> None:
    """Raise a SettingError if a trace lacks the statistics of this package's steps."""
    names = ("full_pass", "scaling", "accepted_share")
    found = trace["sample_stats"].data_vars if "sample_stats" in trace.children else ()
    missing = [name for name in names if name not in found]
    if missing:
        raise SettingError(
            f"{missing[0]!r} is not among the sample_stats of the trace, so none of this package's "
            "steps drew it. Pass the trace that pm.sample(step=step) returns."
        )


def require_draws(trace: xr.DataTree) -> None:
    """Raise a SettingError if a trace is too short for autocorrelations."""
    draws = trace["posterior"].sizes["draw"]
    if draws < MIN_DRAWS:
        raise SettingError(
            f"data= has {draws} draws in a chain, too few to judge the sampler by. Draw "
            f"{MIN_DRAWS} or more."
        )


def audit(
    data: xr.DataTree,
    step: MinibatchStep,
    pairs: int | None = None,
    random_seed: Any = None,
    *,
    model: pm.Model | None = None,
) -> xr.DataTree:
    """Measure the sampler's own error, with evaluations of all observations.

    For draws at even distances in the trace, the step makes a proposal. The audit computes the
    exact acceptance probability of each pair with the full data, and repeats the step's own
    decision many times in both directions. Six checks follow, each with a verdict ("ok", "warn" or
    "fail") and a message; the log has a line for each.

    ``bounds``
        No observation of any pair may exceed its bound (exact methods).
    ``bias``
        Errors of the acceptance probability, and the bias of posterior means and standard
        deviations to first order. An exact method has none, within the standard error.
    ``drift``
        Whether further updates would change the moments of the draws, or their log-density. They
        do if the chains have not converged, or another model drew the trace. The log-density shows
        a wrong joint distribution.
    ``acceptance``
        Whether proposals are accepted at the rate of the trace: a chain that rejects everything
        passes the drift check.
    ``normality``
        Whether sums over batches are about normal: their skewness, and the share of the largest
        observations in the variance (approximate methods).
    ``trace``
        Full-data evaluations, invalid proposals, proved draws and temperature, from the statistics
        of the trace.

    For a step that updates group effects one at a time, a pair is a whole iteration, and the checks
    ``bias`` and ``normality`` are left out.

    A passed audit is no proof: it cannot see an observation that matters only outside the region of
    the draws.

    Parameters
    ----------
    data
        Trace of :func:`pymc.sample` or :func:`sample`.
    step
        The step that drew it. The attribute ``state`` of the result says which of its states was
        audited: the frozen state of the last chain if this chain ran last in this process,
        otherwise the state after another warm-up on draws of the trace. Chains differ in the
        choices of warm-up: the proposal's scale and weights, batch sizes, and the centre.
    pairs
        Number of pairs, rounded up to as many for each chain, with a full-data evaluation for each.
        By default between 50 and 200, so that the audit takes as long as sampling did; the log and
        the attribute ``pairs`` of the result say how many, and `docs/after.md` which errors they
        find.
    random_seed
        Seed of proposals and batches.
    model
        The model; by default the model of the step.

    Returns
    -------
    DataTree
        ``verdict`` and ``message`` by ``check``: ``found.to_dataset().to_dataframe()`` has six
        lines. The group ``pairs`` has an entry per pair, and the group ``moments`` one per moment
        and coordinate of the unconstrained space.

    Raises
    ------
    SettingError
        If `data`, `step` and the model do not belong together; names the variable.
    StaleDataError
        If the model's data changed after the step was built.

    Examples
    --------
    >>> with model:
    ...     found = audit(trace, step, pairs=50)
    >>> table = found.to_dataset().to_dataframe()
    >>> failed = table[table["verdict"] == "fail"]
    """
    step = step_of(step)
    model = model_behind(step) if model is None else resolve_model(model)
    pairs = None if pairs is None else check_integer("pairs", pairs, 2)
    if not isinstance(random_seed, int | np.integer):
        random_seed = int(as_generator("random_seed", random_seed).integers(2**32))
    require_stats(require_trace(data))
    with show_progress("Audit"):
        return _run_audit(data, step, model, pairs, random_seed)


def _run_audit(
    data: xr.DataTree, step: MinibatchStep, model: pm.Model, pairs: int | None, random_seed: int
) -> xr.DataTree:
    """Result of an audit with checked arguments."""
    began, rng = time.perf_counter(), as_generator("random_seed", random_seed)
    draws = value_draws(data, model, step)
    require_draws(data)
    chain, label = frozen_chain(step, data, draws, rng)
    updates, positions = updates_per_draw(step, data), positions_of(draws, step)
    count, chosen = _number_of_pairs(pairs, step, draws, data, chain)
    found, n_top = _measure_pairs(step, draws, count, chain, rng)
    found = found.assign_coords(dimension=coordinate_labels(step, model, data))
    bias = bias_of(positions, found, step.target.factorization.first, updates)
    bias["log_density_drift"] = log_density_drift(found, step.guarantee.is_exact)
    checks = {"bounds": judge_bounds(step, found), "drift": judge_drift(bias)}
    if step.program.sampler.n_decisions == 1:
        times = bias["autocorrelation_time"].to_numpy()
        rates = compare_rates(found["acceptance"].to_numpy(), data, label, times)
        checks["bias"] = judge_bias(step, bias)
        checks["normality"] = judge_normality(step, found, n_top)
    else:
        rates = compare_changes(found, positions)
    checks |= {"acceptance": judge_acceptance(rates), "trace": judge_trace(step, data)}
    groups = {"/": _log_verdicts(checks), "pairs": _label_pairs(found, data), "moments": bias}
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = {
        "method": type(step).__name__,
        "guarantee": chain.exactness,
        "pairs": found.sizes["pair"],
        "pairs_chosen": chosen,
        "rows": step.plan.n_rows,
        "top_rows": n_top,
        "random_seed": random_seed,
        "state": ANEW if label is None else f"chain {label}, as it ended",
        "updates_per_draw": updates,
    }
    _log.info("audit: took %s.", report.describe_seconds(time.perf_counter() - began))
    return tree


def coordinate_labels(step: MinibatchStep, model: pm.Model, trace: xr.DataTree) -> list[str]:
    """Names of a step's coordinates, such as ``intercept[LGA]``, by the labels of a trace."""
    names: list[str] = []
    factorization, posterior = step.target.factorization, trace["posterior"]
    for block, name in zip(factorization.blocks, factorization.natural, strict=True):
        axes: list[Any] = [range(length) for length in block.shape]
        if name in posterior.data_vars:
            known = [dim for dim in posterior[name].dims if dim not in ("chain", "draw")]
            dims = model.named_vars_to_dims.get(name, known)
            labels = [posterior[name][dim].to_numpy() for dim in dims if dim in known]
            # If a transform removes an entry, labels do not fit: entries are numbered instead.
            axes = labels if tuple(map(len, labels)) == block.shape else axes
        entries = list(product(*axes))
        entries = entries if block.entries is None else [entries[k] for k in block.entries]
        names += [f"{block.name}[{', '.join(map(str, x))}]" if x else block.name for x in entries]
    return names


def _number_of_pairs(
    given: int | None, step: MinibatchStep, draws: Draws, trace: xr.DataTree, chain: Chain
) -> tuple[int, str]:
    """Number of pairs and its reason; by default, pairs take as long as sampling did."""
    sampling = float(trace["posterior"].attrs.get("sampling_time", math.inf))
    first = {name: values[:1] for name, values in draws.items()}
    for _ in range(2):
        # Time a second pair, because the first includes the compilation or loading of functions.
        began = time.perf_counter()
        _measure_pairs(step, first, 1, chain.copy(), np.random.default_rng(0))
        seconds = time.perf_counter() - began
        if (given or MAX_PAIRS) * seconds < MAX_SILENT_SECONDS:
            break
    count, chosen = given or affordable_pairs(seconds, sampling), "the usual number"
    if count < MAX_PAIRS:
        usual, took = (report.describe_seconds(x) for x in (MAX_PAIRS * seconds, sampling))
        chosen = f"chosen by time: {MAX_PAIRS} would take {usual}, and sampling took {took}"
    what = f"{report.describe_rows(step.target)} for each of {count} pairs"
    by_time, left = "" if given else f", {chosen}", ""
    if count * seconds > MAX_SILENT_SECONDS:
        left = f"; about {report.describe_seconds(count * seconds)}"
    _log.info("audit: evaluating %s%s%s.", what, by_time, left)
    return count, "as given" if given else chosen


def affordable_pairs(seconds: float, sampling: float) -> int:
    """Number of pairs, at `seconds` per pair, that take as long as sampling, clipped to limits."""
    return int(np.clip(sampling / max(seconds, 1e-9), MIN_PAIRS, MAX_PAIRS))


def _measure_pairs(
    step: MinibatchStep, draws: Draws, pairs: int, chain: Chain, rng: np.random.Generator
) -> tuple[xr.Dataset, int]:
    """Measured decisions or iterations, and the number of observations that count as largest."""
    if step.program.sampler.n_decisions > 1:
        return measure_iterations(step, draws, pairs, chain), 0
    probe = Probe(chain, rng)
    return measure_decisions(step, draws, pairs, probe), probe.n_top


def _label_pairs(pairs: xr.Dataset, trace: xr.DataTree) -> xr.Dataset:
    """Measurements for the user, with the labels of chains and draws."""
    posterior = trace["posterior"]
    coords: dict[str, Any] = {"pair": np.arange(pairs.sizes["pair"])}
    for name in ("chain", "draw"):
        coords[name] = ("pair", posterior[name].to_numpy()[pairs[name]])
    internal = ["chain", "draw", "variance", "fewest_rows", "acceptance_back_mcse"]
    return pairs.drop_vars(internal, errors="ignore").assign_coords(coords)


def _log_verdicts(checks: dict[str, Verdict]) -> xr.Dataset:
    """Verdicts and messages in the order of :data:`CHECKS`, with a line of the log for each."""
    checks = {name: checks[name] for name in CHECKS if name in checks}
    for check, (verdict, message) in checks.items():
        level = logging.INFO if verdict == "ok" else logging.WARNING
        _log.log(level, "audit: %s %s. %s", check, verdict, message)
    columns = zip(Verdict._fields, zip(*checks.values(), strict=True), strict=True)
    variables = {name: ("check", list(values)) for name, values in columns}
    return xr.Dataset(variables, {"check": list(checks)})
