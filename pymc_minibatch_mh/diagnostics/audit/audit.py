"""The sampler's own error, measured after sampling with all rows."""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_minibatch_mh.chain.probe import Probe
from pymc_minibatch_mh.diagnostics.after.traces import trace_of
from pymc_minibatch_mh.diagnostics.audit import verdicts
from pymc_minibatch_mh.diagnostics.audit.acceptance import Accepted, accepted
from pymc_minibatch_mh.diagnostics.audit.bias import MOMENTS, Bias, bias_of
from pymc_minibatch_mh.diagnostics.audit.frozen import frozen_as_sampled
from pymc_minibatch_mh.diagnostics.audit.measure import Measured, measured
from pymc_minibatch_mh.diagnostics.audit.value_draws import value_draws
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.reading.inputs import generator_of, model_of
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.given import model_behind, step_of
from pymc_minibatch_mh.step.settings import integer

#: Draws of a chain below which autocorrelations say nothing.
FEWEST_DRAWS = 50


def audit(
    idata: xr.DataTree,
    step: MinibatchStep,
    pairs: int = 200,
    random_seed: Any = None,
    *,
    model: pm.Model | None = None,
) -> xr.Dataset:
    """Measure the sampler's own error, with evaluations of all rows.

    From draws that lie evenly in the trace, the step proposes as it does while it samples. For
    each pair of draw and proposal all rows are read once, in blocks, and the step's own compiled
    test decides again and again on fresh rows, there and back. Six checks follow, each with a
    verdict, "ok", "warn" or "fail", and a message.

    ``bounds``
        No row of any pair may exceed its bound (exact methods).
    ``bias``
        The error of the acceptance probability, and the bias of posterior means and standard
        deviations that it amounts to, to first order. That of an exact method is zero within its
        standard error.
    ``drift``
        Whether further updates would move the moments of the draws: they do where the trace is of
        another model, or has not converged.
    ``acceptance``
        Whether the moves are accepted as often as those of the trace were: nothing drifts from
        where all moves are rejected.
    ``normality``
        Whether sums over batches are about normal: skewness, and the share of the largest rows in
        the variance (approximate methods).
    ``trace``
        Full passes, invalid updates, certificates and temperature, from the sampler stats.

    A pass means that nothing was found in these pairs, which is no proof: a row that matters
    outside the region that the draws have visited goes unseen.

    Parameters
    ----------
    idata
        What :func:`pymc.sample` returned.
    step
        The step that sampled it. What is audited is said in the attribute ``state``: the frozen
        state of the last chain, if that ran in this process and nothing since, or else that of a
        warm-up which is run anew on draws of the trace. What differs from chain to chain is what
        warm-up chooses: the proposal's scale and weights, batch sizes, and the centre.
    pairs
        Number of pairs, rounded up to as many for each chain. All rows are read once for each.
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
        If `idata`, `step` and the model do not belong together; names the variable.
    StaleDataError
        If the model's data changed after the step was built.
    """
    step = step_of(step)
    model = model_behind(step) if model is None else model_of(model)
    pairs = integer("pairs", pairs, 2)
    if not isinstance(random_seed, int | np.integer):
        random_seed = int(generator_of("random_seed", random_seed).integers(2**32))
    rng = generator_of("random_seed", random_seed)
    verdicts.require_stats(trace_of("idata", idata))
    draws = value_draws(idata, model, step)
    if draws.draws < FEWEST_DRAWS:
        raise SettingError(
            f"idata has {draws.draws} draws in a chain, too few to judge the sampler by. Draw "
            f"{FEWEST_DRAWS} or more."
        )
    frozen = frozen_as_sampled(step, idata, draws, rng)
    probe = Probe(frozen.chain, rng)
    found = measured(step, draws, pairs, probe)
    first = step.target.split.first
    updates = verdicts.updates_per_draw(step, idata)
    bias = bias_of(draws.positions(step), found, first, updates)
    result = _dataset(step, found, bias, idata)
    rates = accepted(found, idata, frozen.number, bias.autocorrelation_time)
    result = result.merge(_checks(step, found, (bias, rates), idata, probe.n_top))
    return result.assign_attrs(
        method=type(step).__name__,
        guarantee=frozen.chain.exactness,
        pairs=len(found.chain),
        rows=probe.n_rows,
        top_rows=probe.n_top,
        random_seed=random_seed,
        state=frozen.origin,
        updates_per_draw=updates,
    )


def _checks(
    step: MinibatchStep,
    found: Measured,
    estimates: tuple[Bias, Accepted],
    trace: xr.DataTree,
    n_top: int,
) -> xr.Dataset:
    bias, rates = estimates
    names = step.target.split.coordinate_names[step.target.split.first :]
    checks = {
        "bounds": verdicts.on_bounds(step, found),
        "bias": verdicts.on_bias(step, bias, names),
        "drift": verdicts.on_drift(bias, names),
        "acceptance": verdicts.on_acceptance(rates),
        "normality": verdicts.on_normality(step, found, n_top),
        "trace": verdicts.on_trace(step, trace),
    }
    return xr.Dataset(
        {
            field: ("check", [getattr(check, field) for check in checks.values()])
            for field in verdicts.Verdict._fields
        },
        {"check": list(checks)},
    )


def _dataset(step: MinibatchStep, found: Measured, bias: Bias, trace: xr.DataTree) -> xr.Dataset:
    split = step.target.split
    terms = [
        verdicts.term_and_row(step, int(row)) if row >= 0 else ("", -1)
        for row in found.rows["bound_row"]
    ]
    per_pair = {
        "log_ratio": found.rows["log_ratio"],
        "acceptance": found.there["mean"],
        "acceptance_mcse": found.there["mcse"],
        "acceptance_back": found.back["mean"],
        "acceptance_error": found.error,
        "acceptance_error_mcse": found.error_mcse,
        "rows_read": found.there["rows"],
        **{name: found.rows[name] for name in ("skewness", "largest_share", "top_share")},
        "bound_ratio": found.rows["bound_ratio"],
        "bound_term": np.array([name for name, _ in terms]),
        "bound_row": np.array([row for _, row in terms]),
    }
    variables: dict[str, Any] = {name: ("pair", values) for name, values in per_pair.items()}
    variables["position"] = (("pair", "dimension"), found.position)
    variables["proposal"] = (("pair", "dimension"), found.new)
    names = ["bias", "bias_mcse", "bias_bound", "drift", "autocorrelation_time"]
    for name, values in zip(names, bias, strict=True):
        variables[name] = (("moment", "coordinate"), values)
    posterior = trace["posterior"]
    coords = {
        "pair": np.arange(len(found.chain)),
        "chain": ("pair", posterior["chain"].to_numpy()[found.chain]),
        "draw": ("pair", posterior["draw"].to_numpy()[found.draw]),
        "dimension": split.coordinate_names,
        "moment": list(MOMENTS),
        "coordinate": split.coordinate_names[split.first :],
    }
    return xr.Dataset(variables, coords)
