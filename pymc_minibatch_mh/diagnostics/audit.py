"""The sampler's own error, measured after sampling with all rows."""

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
from pymc_minibatch_mh.chain.probe import Probe
from pymc_minibatch_mh.checks import integer
from pymc_minibatch_mh.compiled.graphs import names_of_terms
from pymc_minibatch_mh.diagnostics.bias import (
    Accepted,
    ValueDraws,
    accepted,
    bias_of,
    frozen_as_sampled,
    log_density_drift,
    measured,
    moved,
    point_of,
    positions_of,
    value_draws,
)
from pymc_minibatch_mh.diagnostics.chosen_rows import trace_of
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.likelihood.inputs import generator_of, model_of
from pymc_minibatch_mh.plan.violations import largest_of_parts
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps.base import MinibatchStep, model_behind, step_of

_log = logging.getLogger("pymc")

#: Bias in standard deviations of the draws up to which intervals keep their coverage: at a tenth,
#: 95 % intervals still cover 94.9 %.
TOLERABLE_BIAS = 0.1
#: Standard errors within which an estimated bias may lie, for it to be called tolerable.
MARGIN = 2.0
#: Chance that one of all coordinates shows a bias, or a drift, that is not there; and that rates of
#: acceptance differ that do not.
FALSE_ALARM = 1e-3
#: Error of an acceptance probability, from the first term of Edgeworth's series, that is worth a
#: warning, and that is a failure: beyond it the series itself says nothing.
EDGEWORTH_WARN, EDGEWORTH_FAIL = 0.01, 0.05
#: sup of that term for a distribution function, in skewness/√b: φ(0)/6.
EDGEWORTH = 1.0 / (6.0 * math.sqrt(2.0 * math.pi))
#: Deviations of the batch's sum that one row may be worth.
PULL = 1.0
#: Standard deviation of the log ratio's noise below which its shape hardly matters.
LITTLE_NOISE = 0.1
#: Rows of a batch that should carry half of its variance, for an estimate of that to be one.
FEWEST_TOP_ROWS = 10.0
#: Shares of updates that read all rows, and that ended outside the support, worth a warning.
FULL_PASSES, INVALID = 0.1, 0.1


class Verdict(NamedTuple):
    """Ok, warn or fail, and a message that names variable, cause and fix."""

    verdict: str
    message: str


ok, warn, fail = (partial(Verdict, verdict) for verdict in ("ok", "warn", "fail"))


def updates_per_draw(step: MinibatchStep, trace: xr.DataTree) -> int:
    """Return how many updates lie between two draws of a trace; of `pm.sample` as of the step."""
    return int(trace["posterior"].attrs.get("updates_per_draw", step.updates_per_draw))


def on_bounds(step: MinibatchStep, pairs: xr.Dataset) -> Verdict:
    """Judge the bounds of a method that has any: no row of no pair may exceed its own."""
    ratios, exact = pairs["bound_ratio"].to_numpy(), step.guarantee.is_exact
    if step.plan.bounds is None:
        return ok(f"{type(step).__name__} relies on no bounds.")
    if np.isnan(ratios).all():
        return warn(
            f"{names_of_terms(step.target.factorization)}: no pair lies where bounds hold, so that "
            f"all rows decide. {'The draws are exact, but ' if exact else ''}PenaltyMH() or "
            "pm.NUTS() would be quicker."
        )
    worst = int(np.nanargmax(ratios))
    name, row = str(pairs["bound_term"].values[worst]), int(pairs["bound_row"][worst])
    if ratios[worst] <= 1.0:
        return ok(
            f"No row exceeds its bound; {name!r}, row {row}, comes closest: {ratios[worst]:.3g}."
        )
    own = step.plan.requirements.derives
    return fail(
        f"{name!r}: row {row} changes by {ratios[worst]:.3g} times its bound in pair {worst}, so "
        f"that {'the draws are not exact' if exact else 'no error is controlled by bounds'}. "
        + ("Please report it; " if own else "Enlarge your own, or leave them out; ")
        + "PenaltyMH() needs no bounds."
    )


def on_bias(step: MinibatchStep, found: xr.Dataset) -> Verdict:
    """Judge the bias of the posterior's moments."""
    bias, mcse = found["bias"].to_numpy(), found["bias_mcse"].to_numpy()
    names = found["coordinate"].values.tolist()
    if not np.isfinite(bias).all():
        return fail(
            f"{names[int(np.argwhere(~np.isfinite(bias))[0, 1])]!r} does not move in this trace, "
            "or has no pair to judge it by. Draw more, from overdispersed_initvals(step, chains)."
        )
    surely = np.abs(bias) + ndtri(0.5 * FALSE_ALARM / bias.size) * mcse
    possibly = np.abs(bias) + MARGIN * mcse
    exact = step.guarantee.is_exact
    # Sums of differences of exact tests vanish up to rounding.
    proven = surely > (1e-6 if exact else TOLERABLE_BIAS)
    worst = np.unravel_index(np.argmax(surely if proven.any() else possibly), possibly.shape)
    what = (
        f"{names[worst[1]]!r}: its posterior {found['moment'].values[worst[0]]} is estimated to be "
        f"off by {bias[worst]:+.2g} ± {mcse[worst]:.2g} sd"
    )
    if proven.any():
        fix = (
            "An exact method must not show one: see the check 'bounds', and please report it."
            if exact
            else "Use TunaMH(), or larger batches: a larger batch_size, a smaller epsilon or sigma."
        )
        return fail(f"{what}, because batches decide other than all rows would. {fix}")
    if possibly[worst] > TOLERABLE_BIAS:
        return warn(
            f"{what}, which does not exclude {TOLERABLE_BIAS} sd. Audit more pairs, or draw more "
            "if the chain moves slowly."
        )
    return ok(f"{what}; no coordinate is worse.")


def on_drift(found: xr.Dataset) -> Verdict:
    """Judge whether the draws have the distribution that the sampler leaves invariant."""
    drift, joint = found["drift"].to_numpy(), float(found["log_density_drift"])
    surely = -ndtri(0.5 * FALSE_ALARM / (drift.size + 1))
    worst = np.unravel_index(np.argmax(np.nan_to_num(np.abs(drift))), drift.shape)
    moment, name = found["moment"].values[worst[0]], found["coordinate"].values.tolist()[worst[1]]
    z = np.nan_to_num(drift[worst])
    why = (
        "the chains have not arrived, or the trace is not of this step, model and data. Sample "
        "longer, or give the step that sampled it, and the draws as it left them."
    )
    if abs(z) > surely:
        return fail(
            f"{name!r}: its {moment} would move on in further updates (z = {z:+.1f}): {why}"
        )
    if abs(joint) > surely:
        names = dict.fromkeys(name.split("[")[0] for name in found["coordinate"].values.tolist())
        return fail(
            f"{', '.join(map(repr, names))}: further updates would change the log-density (z = "
            f"{joint:+.1f}), though each mean and sd would stay: {why}"
        )
    return ok(
        f"{name!r}: its {moment} drifts most, by {abs(z):.1f} standard errors; the log-density "
        f"drifts by {abs(joint):.1f}."
    )


def on_acceptance(rates: Accepted) -> Verdict:
    """Judge whether moves are accepted as often as the trace says that its own were."""
    what = f"{rates.pairs:.3g} of the audited moves are accepted, {rates.trace:.3g} in the trace"
    if rates.log_chance > math.log(0.5 * FALSE_ALARM):
        return ok(f"{what}.")
    return fail(
        f"{what}: the draws lie where this step, model and data would not have moved. Sample "
        "longer, or give the step that sampled the trace, and the draws as it left them."
    )


def on_normality(step: MinibatchStep, pairs: xr.Dataset, n_top: int) -> Verdict:
    """Judge whether sums over batches are about normal, as approximate tests take them to be."""
    n_rows = step.plan.n_drawn
    if step.guarantee.is_exact:
        return ok(f"{type(step).__name__} does not take batches for normal.")
    batch = pairs["fewest_rows"].to_numpy() - (step.plan.n_rows - n_rows)
    part = np.isfinite(batch) & (2.0 * batch < n_rows) & np.isfinite(pairs["skewness"].to_numpy())
    part &= pairs["variance"].to_numpy() > 0.0
    if not part.any():
        return ok("All rows decided every pair.")
    rows = {name: x.to_numpy()[part] for name, x in pairs.data_vars.items()}
    batch, skewness = batch[part], np.abs(rows["skewness"])
    beta = step.plan.reference.inverse_temperature
    noise = beta * n_rows * np.sqrt(rows["variance"] * (1.0 / batch - 1.0 / n_rows))
    # Where noise is small against 1, so is what its shape does to a smooth probability.
    weight = np.minimum(1.0, noise**3)
    edgeworth = float(np.mean(weight * EDGEWORTH * skewness / np.sqrt(batch)))
    mattering = noise > LITTLE_NOISE
    if not mattering.any():
        return ok(
            f"The log ratio of a batch has a noise of {noise.max():.2g} at most, too little for "
            "its shape to matter."
        )
    pull = float(np.median(np.sqrt(rows["largest_share"] * n_rows / batch)[mattering]))
    half = np.mean(rows["top_share"][mattering] > 0.5)
    top_rows = float(np.median(batch[mattering])) * n_top / n_rows
    enough = bool(half <= 0.5) or top_rows >= FEWEST_TOP_ROWS
    what = (
        f"{names_of_terms(step.target.factorization)}: skewness {np.median(skewness):.2g} in "
        f"batches of {np.median(batch):.0f} rows, an error of about {edgeworth:.1g} in the "
        f"acceptance probability; the largest row is worth {pull:.2g} sd of a batch"
    )
    fix = "Raise batch_size, give rare rows a likelihood of their own, or use TunaMH()."
    if edgeworth > EDGEWORTH_FAIL:
        return fail(f"{what}: sums over batches are not normal. {fix}")
    if edgeworth > EDGEWORTH_WARN or pull > PULL or not enough:
        rare = "" if enough else f", and {top_rows:.1f} rows of a batch carry half of its variance"
        return warn(f"{what}{rare}: sums over batches are hardly normal. {fix}")
    return ok(f"{what}.")


def on_trace(step: MinibatchStep, trace: xr.DataTree) -> Verdict:
    """Judge the sampler stats: full passes, invalid updates, certificates and temperature."""
    stats = trace["sample_stats"]
    updates = updates_per_draw(step, trace)
    full, invalid = (float(stats[name].mean()) / updates for name in ("full_pass", "invalid"))
    certified = bool(stats["certified"].all())
    temperatures = np.unique(stats["temperature"].to_numpy())
    names = names_of_terms(step.target.factorization)
    problems = []
    if step.guarantee.is_exact and not certified:
        problems.append(
            f"{names}: not all draws are certified to be exact, as bounds= are your own or a row "
            "exceeded its bound. Leave bounds= out to have them derived."
        )
    if (temperatures != 1.0).any():
        problems.append(
            f"{names}: its likelihood was raised to the power 1/{temperatures.max():.3g}, so that "
            "the draws are not from the posterior. Leave temperature= out, or reweight."
        )
    if full > FULL_PASSES and not step.program.method.reads_all_rows:
        groups = ", such as fewer groups" if step.target.n_elements else ""
        problems.append(
            f"{names}: {full:.0%} of the updates read all rows, because the control variates leave "
            "too much noise. Subsampling gains little here: use pm.NUTS(), or fewer parameters "
            f"with more rows each{groups}."
        )
    if invalid > INVALID:
        problems.append(
            f"{names}: {invalid:.0%} of the updates ended where a log-density is not finite. "
            "Use variables with a transform, or a smaller scale of the proposal."
        )
    if problems:
        return warn(" ".join(problems))
    return ok(f"{full:.1%} of the updates read all rows, {invalid:.1%} ended outside the support.")


def require_stats(trace: xr.DataTree) -> None:
    """Refuse a trace without the stats of this package's steps."""
    names = ("full_pass", "invalid", "certified", "temperature", "scaling", "accepted_share")
    found = trace["sample_stats"].data_vars if "sample_stats" in trace.children else ()
    missing = [name for name in names if name not in found]
    if missing:
        raise SettingError(
            f"{missing[0]!r} is not among the sample_stats of the trace, so that none of this "
            "package's steps drew it. Pass the trace that pm.sample(step=step) returns."
        )


#: Where the state is from that is audited, if not from the trace.
ANEW = "adapted anew, on draws of the trace"
#: Draws of a chain below which autocorrelations say nothing.
FEWEST_DRAWS = 50


def require_draws(trace: xr.DataTree) -> None:
    """Refuse a trace that is too short for autocorrelations."""
    draws = trace["posterior"].sizes["draw"]
    if draws < FEWEST_DRAWS:
        raise SettingError(
            f"data= has {draws} draws in a chain, too few to judge the sampler by. Draw "
            f"{FEWEST_DRAWS} or more."
        )


def audit(
    data: xr.DataTree,
    step: MinibatchStep,
    pairs: int | None = None,
    random_seed: Any = None,
    *,
    model: pm.Model | None = None,
) -> xr.Dataset:
    """Measure the sampler's own error, with evaluations of all rows.

    From draws that lie evenly in the trace, the step proposes as it does while it samples. For
    each pair of draw and proposal all rows are read once, in blocks, and the step's own compiled
    test decides again and again on fresh rows, there and back. Six checks follow, each with a
    verdict, "ok", "warn" or "fail", and a message; a line for each goes to the log.

    ``bounds``
        No row of any pair may exceed its bound (exact methods).
    ``bias``
        The error of the acceptance probability, and the bias of posterior means and standard
        deviations that it amounts to, to first order. That of an exact method is zero within its
        standard error.
    ``drift``
        Whether further updates would move the moments of the draws, or their log-density, which
        tells a wrong joint distribution: they do where the trace is of another model, or has not
        converged.
    ``acceptance``
        Whether the moves are accepted as often as those of the trace were: nothing drifts from
        where all moves are rejected.
    ``normality``
        Whether sums over batches are about normal: skewness, and the share of the largest rows in
        the variance (approximate methods).
    ``trace``
        Full passes, invalid updates, certificates and temperature, from the sampler stats.

    A step that moves effects each by itself is judged by whole iterations, without ``bias`` and
    ``normality``.

    A pass means that nothing was found in these pairs, which is no proof: a row that matters
    outside the region that the draws have visited goes unseen.

    Parameters
    ----------
    data
        Trace of :func:`pymc.sample` or :func:`sample`.
    step
        The step that sampled it. The attribute ``state`` says which of its states is audited: the
        frozen state of the last chain, if that ran in this process and nothing since, or else that
        of a warm-up which is run anew on draws of the trace. Chains differ in the choices of
        warm-up: the proposal's scale and weights, batch sizes, and the centre.
    pairs
        Number of pairs, rounded up to as many for each chain. All rows are read once for each. By
        default as many as take as long as sampling did, between 50 and 200; the attribute
        ``pairs`` of the result and the log say how many, and `docs/after.md` which errors they
        find.
    random_seed
        Seed of proposals and batches.
    model
        The model; by default the one that the step was built on.

    Returns
    -------
    Dataset
        One entry per ``pair``, per ``moment`` and ``coordinate`` (of the unconstrained space), and
        per ``check``.

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
    >>> failed = found["check"][found["verdict"] == "fail"]
    """
    step = step_of(step)
    model = model_behind(step) if model is None else model_of(model)
    pairs = None if pairs is None else integer("pairs", pairs, 2)
    if not isinstance(random_seed, int | np.integer):
        random_seed = int(generator_of("random_seed", random_seed).integers(2**32))
    rng = generator_of("random_seed", random_seed)
    require_stats(trace_of(data))
    draws = value_draws(data, model, step)
    require_draws(data)
    began = time.perf_counter()
    chain, number = frozen_as_sampled(step, data, draws, rng)
    updates, first = updates_per_draw(step, data), step.target.factorization.first
    count, chosen = _number_of_pairs(pairs, step, draws, data, chain)
    why = "" if pairs is not None else f", {chosen}"
    _log.info("audit: reading %s for each of %d pairs%s.", report.rows_of(step.target), count, why)
    found, top = _pairs_of(step, draws, count, chain, rng)
    bias = bias_of(positions_of(draws, step), found, first, updates)
    bias["log_density_drift"] = log_density_drift(found, step.guarantee.is_exact)
    if step.plan.elements is not None:
        rates = moved(found, positions_of(draws, step))
        checks = _checks_of_iterations(step, found, bias, rates, data)
    else:
        checks = _checks(step, found, bias, data, number, top)
    result = xr.merge([_with_labels(found, data), bias, _verdicts(checks)])
    _log.info("audit: took %s.", report.in_words(time.perf_counter() - began))
    return result.assign_attrs(
        method=type(step).__name__,
        guarantee=chain.exactness,
        pairs=found.sizes["pair"],
        pairs_chosen=chosen,
        rows=step.plan.n_rows,
        top_rows=top,
        random_seed=random_seed,
        state=ANEW if number is None else f"chain {number}, as it ended",
        updates_per_draw=updates,
    )


#: Pairs of an audit that no one gave a number of: the most, and the least.
MOST_PAIRS, LEAST_PAIRS = 200, 50


def _number_of_pairs(
    given: int | None, step: MinibatchStep, draws: ValueDraws, trace: xr.DataTree, chain: Chain
) -> tuple[int, str]:
    """Return a number of pairs, and who chose it; by default they take as long as sampling did."""
    if given is not None:
        return given, "as given"
    sampling = float(trace["posterior"].attrs.get("sampling_time", math.inf))
    one = {name: values[:1] for name, values in draws.items()}
    for _ in range(2):
        # Functions are compiled, or loaded, for the first pair.
        began = time.perf_counter()
        _pairs_of(step, one, 1, chain.copy(), np.random.default_rng(0))
        seconds = time.perf_counter() - began
    count = affordable_pairs(seconds, sampling)
    if count == MOST_PAIRS:
        return count, "the usual number"
    return count, (
        f"chosen by time: {MOST_PAIRS} would take {report.in_words(MOST_PAIRS * seconds)}, and "
        f"sampling took {report.in_words(sampling)}"
    )


def affordable_pairs(seconds: float, sampling: float) -> int:
    """Return how many pairs of so many seconds take as long as sampling, within limits."""
    return int(np.clip(sampling / max(seconds, 1e-9), LEAST_PAIRS, MOST_PAIRS))


def _pairs_of(
    step: MinibatchStep, draws: ValueDraws, pairs: int, chain: Chain, rng: np.random.Generator
) -> tuple[xr.Dataset, int]:
    """Return measured pairs, or iterations, and how many rows count as the largest ones."""
    if step.plan.elements is not None:
        return _iterated(step, draws, pairs, chain), 0
    probe = Probe(chain, rng)
    return measured(step, draws, pairs, probe), probe.n_top


def _iterated(step: MinibatchStep, draws: ValueDraws, pairs: int, chain: Chain) -> xr.Dataset:
    """Make an iteration from draws that lie evenly in all chains, and read all rows for each.

    It moves every unknown by a test of its own, none of which stands for all. So it is measured as
    a whole: how moments change, and how far each row changes between the ends of the iteration,
    against the ceiling for any two ends.

    The entries of the dataset are pairs of a draw and that after an iteration, at least so many,
    with places in the trace as ``chain`` and ``draw``. Tests are exact, so that no acceptance
    probability is in error, and every iteration counts as one move that was made.
    """
    positions, factorization, plan = positions_of(draws, step), step.target.factorization, step.plan
    assert plan.elements is not None
    assert plan.parts is not None
    each = -(-pairs // len(positions))
    places = ((np.arange(each) + 0.5) / each * positions.shape[1]).astype(int)
    found = []
    for number, draw in product(range(len(positions)), places.tolist()):
        others = factorization.ravel_others(point_of(draws, number, draw))
        step.target.condition_on(point_of(draws, number, draw))
        here = np.ascontiguousarray(positions[number, draw], dtype=np.float64)
        chain.place(here, others)
        there = chain.advance(1).positions[0]
        ratio, worst = largest_of_parts(step.target, plan.elements, plan.parts, here, there)
        term, row = step.target.term_and_row(worst) if worst >= 0 else ("", -1)
        found.append(
            {"chain": number, "draw": draw, "position": here, "proposal": there,
             "log_ratio": _log_density(step, there) - _log_density(step, here),
             "bound_ratio": ratio, "bound_term": term, "bound_row": row}
        )  # fmt: skip
    columns = {name: np.array([one[name] for one in found]) for name in found[0]}
    columns |= {"acceptance": np.ones(len(found))}
    columns |= dict.fromkeys(("acceptance_error", "acceptance_error_mcse"), np.zeros(len(found)))
    return xr.Dataset(
        {name: (("pair", "dimension")[: x.ndim], x) for name, x in columns.items()},
        {"dimension": factorization.coordinate_names},
    )


def _log_density(step: MinibatchStep, position: np.ndarray) -> float:
    """Return the log-density of a position that the step's chain has, tempered as it is."""
    target = step.target
    return target.log_prior(position) + target.inverse_temperature * target.log_likelihood(position)


def _checks(
    step: MinibatchStep,
    pairs: xr.Dataset,
    bias: xr.Dataset,
    trace: xr.DataTree,
    number: int | None,
    n_top: int,
) -> dict[str, Verdict]:
    """Judge measured pairs and the bias of their errors."""
    times = bias["autocorrelation_time"].to_numpy()
    rates = accepted(pairs["acceptance"].to_numpy(), trace, number, times)
    return {
        "bounds": on_bounds(step, pairs),
        "bias": on_bias(step, bias),
        "drift": on_drift(bias),
        "acceptance": on_acceptance(rates),
        "normality": on_normality(step, pairs, n_top),
        "trace": on_trace(step, trace),
    }


def _checks_of_iterations(
    step: MinibatchStep, pairs: xr.Dataset, bias: xr.Dataset, rates: Accepted, trace: xr.DataTree
) -> dict[str, Verdict]:
    """Judge iterations of many moves."""
    return {
        "bounds": on_bounds(step, pairs),
        "drift": on_drift(bias),
        "acceptance": on_acceptance(rates),
        "trace": on_trace(step, trace),
    }


def _with_labels(pairs: xr.Dataset, trace: xr.DataTree) -> xr.Dataset:
    """Return the measurements that an audit tells of, with labels of chains and draws."""
    posterior = trace["posterior"]
    coords: dict[str, Any] = {"pair": np.arange(pairs.sizes["pair"])}
    for name in ("chain", "draw"):
        coords[name] = ("pair", posterior[name].to_numpy()[pairs[name]])
    untold = ["chain", "draw", "variance", "fewest_rows", "acceptance_back_mcse"]
    told = pairs.drop_vars(untold, errors="ignore")
    return told.assign_coords(coords)


def _verdicts(checks: dict[str, Verdict]) -> xr.Dataset:
    """Write a line for each check to the log, and return verdicts and messages."""
    for check, (verdict, message) in checks.items():
        level = logging.INFO if verdict == "ok" else logging.WARNING
        _log.log(level, "audit: %s %s. %s", check, verdict, message)
    columns = zip(Verdict._fields, zip(*checks.values(), strict=True), strict=True)
    variables = {name: ("check", list(values)) for name, values in columns}
    return xr.Dataset(variables, {"check": list(checks)})
