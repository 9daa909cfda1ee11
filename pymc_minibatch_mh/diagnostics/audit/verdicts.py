"""What measurements of a trace and its sampler amount to: ok, warn or fail, and why."""

import math
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import ndtri

from pymc_minibatch_mh.diagnostics.audit.acceptance import Accepted
from pymc_minibatch_mh.diagnostics.audit.bias import MOMENTS, Bias
from pymc_minibatch_mh.diagnostics.audit.measure import Measured
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.step.base import MinibatchStep

OK, WARN, FAIL = "ok", "warn", "fail"

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


def names_of_terms(step: MinibatchStep) -> str:
    """Return the names of the subsampled variables, as messages quote them."""
    return ", ".join(repr(term.name) for term in step.target.split.terms)


def term_and_row(step: MinibatchStep, row: int) -> tuple[str, int]:
    """Return the variable that a row belongs to, and the number that it has there."""
    starts = step.target.source.term_starts
    term = int(np.searchsorted(starts, row, side="right")) - 1
    return step.target.split.terms[term].name, row - int(starts[term])


def updates_per_draw(step: MinibatchStep, trace: xr.DataTree) -> int:
    """Return how many updates lie between two draws of a trace, which may be thinned."""
    return step.updates_per_draw * int(trace["posterior"].attrs.get("thin", 1))


def on_bounds(step: MinibatchStep, measured: Measured) -> Verdict:
    """Judge the bounds of a method that has any: no row of no pair may exceed its own."""
    ratios, exact = measured.rows["bound_ratio"], step.guarantee.is_exact
    if step.tables is None:
        return Verdict(OK, f"{step.name} relies on no bounds.")
    inside = np.isfinite(ratios) | np.isposinf(ratios)
    if not inside.any():
        return Verdict(
            WARN,
            f"{names_of_terms(step)}: no pair lies where bounds hold, so that all rows decide. "
            f"{'The draws are exact, but ' if exact else ''}PenaltyMH() or pm.NUTS() would be "
            "quicker.",
        )
    worst = int(np.nanargmax(ratios))
    name, row = term_and_row(step, int(measured.rows["bound_row"][worst]))
    if ratios[worst] <= 1.0:
        return Verdict(
            OK,
            f"No row exceeds its bound; {name!r}, row {row}, comes closest: {ratios[worst]:.3g}.",
        )
    own = step.prepared.needs.derives
    return Verdict(
        FAIL,
        f"{name!r}: row {row} changes by {ratios[worst]:.3g} times its bound in pair {worst}, so "
        f"that {'the draws are not exact' if exact else 'no error is controlled by bounds'}. "
        + ("Please report it; " if own else "Enlarge your own, or leave them out; ")
        + "PenaltyMH() needs no bounds.",
    )


def on_bias(step: MinibatchStep, bias: Bias, names: list[str]) -> Verdict:
    """Judge the bias of the posterior's moments."""
    if not np.isfinite(bias.estimate).all():
        where = names[int(np.argwhere(~np.isfinite(bias.estimate))[0, 1])]
        return Verdict(
            FAIL,
            f"{where!r} does not move in this trace, or has no pair to judge it by. Draw more, "
            "from overdispersed_initvals(step, chains).",
        )
    z = -ndtri(0.5 * FALSE_ALARM / bias.estimate.size)
    surely = np.abs(bias.estimate) - z * bias.mcse
    possibly = np.abs(bias.estimate) + MARGIN * bias.mcse
    exact = step.guarantee.is_exact
    # Sums of differences of exact tests vanish up to rounding.
    proven = surely > (1e-6 if exact else TOLERABLE_BIAS)
    worst = np.unravel_index(np.argmax(surely if proven.any() else possibly), possibly.shape)
    what = (
        f"{names[worst[1]]!r}: its posterior {MOMENTS[worst[0]]} is estimated to be off by "
        f"{bias.estimate[worst]:+.2g} ± {bias.mcse[worst]:.2g} sd"
    )
    if proven.any():
        fix = (
            "An exact method must not show one: see the check 'bounds', and please report it."
            if exact
            else "Use TunaMH(), or larger batches: a larger batch_size, a smaller epsilon or sigma."
        )
        return Verdict(FAIL, f"{what}, because batches decide other than all rows would. {fix}")
    if possibly[worst] > TOLERABLE_BIAS:
        return Verdict(
            WARN,
            f"{what}, which does not exclude {TOLERABLE_BIAS} sd. Audit more pairs, or draw more "
            "if the chain moves slowly.",
        )
    return Verdict(OK, f"{what}; no coordinate is worse.")


def on_drift(bias: Bias, names: list[str]) -> Verdict:
    """Judge whether the draws are distributed as what the sampler leaves invariant."""
    drift = np.nan_to_num(np.abs(bias.drift))
    worst = np.unravel_index(np.argmax(drift), drift.shape)
    where = f"{names[worst[1]]!r}: its {MOMENTS[worst[0]]}"
    if drift[worst] > -ndtri(0.5 * FALSE_ALARM / drift.size):
        return Verdict(
            FAIL,
            f"{where} would move on in further updates (z = {bias.drift[worst]:+.1f}): the chains "
            "have not arrived, or the trace is not of this step, model and data. Sample longer, "
            "or give the step that sampled it.",
        )
    return Verdict(OK, f"{where} drifts most, by {drift[worst]:.1f} standard errors.")


def on_acceptance(rates: Accepted) -> Verdict:
    """Judge whether moves are accepted as often as the trace says that its own were."""
    what = f"{rates.pairs:.3g} of the audited moves are accepted, {rates.trace:.3g} in the trace"
    if rates.log_chance > math.log(0.5 * FALSE_ALARM):
        return Verdict(OK, f"{what}.")
    return Verdict(
        FAIL,
        f"{what}: the draws lie where this step, model and data would not have moved. Sample "
        "longer, or give the step that sampled the trace, and the draws as it left them.",
    )


def on_normality(step: MinibatchStep, measured: Measured, n_top: int) -> Verdict:
    """Judge whether sums over batches are about normal, as approximate tests take them to be."""
    n_rows = step.prepared.n_drawn
    if step.guarantee.is_exact:
        return Verdict(OK, f"{step.name} does not take batches for normal.")
    rows = measured.rows
    batch = measured.there["fewest_rows"] - (step.prepared.n_rows - n_rows)
    part = np.isfinite(batch) & (2.0 * batch < n_rows) & np.isfinite(rows["skewness"])
    part &= rows["variance"] > 0.0
    if not part.any():
        return Verdict(OK, "All rows decided every pair.")
    batch, skewness = batch[part], np.abs(rows["skewness"][part])
    beta = step.prepared.surrogate.inverse_temperature
    noise = beta * n_rows * np.sqrt(rows["variance"][part] * (1.0 / batch - 1.0 / n_rows))
    # Where noise is small against 1, so is what its shape does to a smooth probability.
    weight = np.minimum(1.0, noise**3)
    edgeworth = float(np.mean(weight * EDGEWORTH * skewness / np.sqrt(batch)))
    mattering = noise > LITTLE_NOISE
    if not mattering.any():
        return Verdict(
            OK,
            f"The log ratio of a batch has a noise of {noise.max():.2g} at most, too little for "
            "its shape to matter.",
        )
    pull = float(np.median(np.sqrt(rows["largest_share"][part] * n_rows / batch)[mattering]))
    half = np.mean(rows["top_share"][part][mattering] > 0.5)
    top_rows = float(np.median(batch[mattering])) * n_top / n_rows
    enough = bool(half <= 0.5) or top_rows >= FEWEST_TOP_ROWS
    what = (
        f"{names_of_terms(step)}: skewness {np.median(skewness):.2g} in batches of "
        f"{np.median(batch):.0f} rows, an error of about {edgeworth:.1g} in the acceptance "
        f"probability; the largest row is worth {pull:.2g} sd of a batch"
    )
    fix = "Raise batch_size, give rare rows a likelihood of their own, or use TunaMH()."
    if edgeworth > EDGEWORTH_FAIL:
        return Verdict(FAIL, f"{what}: sums over batches are not normal. {fix}")
    if edgeworth > EDGEWORTH_WARN or pull > PULL or not enough:
        rare = "" if enough else f", and {top_rows:.1f} rows of a batch carry half of its variance"
        return Verdict(WARN, f"{what}{rare}: sums over batches are hardly normal. {fix}")
    return Verdict(OK, f"{what}.")


def on_trace(step: MinibatchStep, trace: xr.DataTree) -> Verdict:
    """Judge the sampler stats: full passes, invalid updates, certificates and temperature."""
    stats = trace["sample_stats"]
    updates = updates_per_draw(step, trace)
    full, invalid = (float(stats[name].mean()) / updates for name in ("full_pass", "invalid"))
    certified = bool(stats["certified"].all())
    temperatures = np.unique(stats["temperature"].to_numpy())
    names = names_of_terms(step)
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
        groups = ", such as fewer groups" if step.target.has_groups else ""
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
        return Verdict(WARN, " ".join(problems))
    return Verdict(
        OK, f"{full:.1%} of the updates read all rows, {invalid:.1%} ended outside the support."
    )


def require_stats(trace: xr.DataTree) -> None:
    """Refuse a trace without the stats of this package's steps."""
    names = ("full_pass", "invalid", "certified", "temperature", "scaling", "accepted_share")
    found = trace["sample_stats"].data_vars if "sample_stats" in trace.children else ()
    missing = [name for name in names if name not in found]
    if missing:
        raise SettingError(
            f"{missing[0]!r} is not among the sample_stats of the trace, so that none of this "
            "package's steps drew it. Give what pm.sample(step=step) returned."
        )
