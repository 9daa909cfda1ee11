"""Verdicts of an audit on figures that are made up, at either side of each limit."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_minibatch_mh.diagnostics import audit as audits
from pymc_minibatch_mh.errors import SettingError


class FakeMH(SimpleNamespace):
    """What verdicts ask of a step."""


def step_of(*, exact=True, bounds=True, derives=True, reads_all=False, elements=0, rows=10_000):
    factorization = SimpleNamespace(terms=[SimpleNamespace(name="late")])
    return FakeMH(
        guarantee=SimpleNamespace(is_exact=exact),
        plan=SimpleNamespace(
            bounds=object() if bounds else None,
            requirements=SimpleNamespace(derives_bounds=derives),
            n_rows=rows,
            n_drawn=rows,
            reference=SimpleNamespace(inverse_temperature=1.0),
        ),
        program=SimpleNamespace(method=SimpleNamespace(reads_all_rows=reads_all)),
        target=SimpleNamespace(factorization=factorization, n_elements=elements),
        updates_per_draw=2,
    )


def bounded(ratios):
    """Return pairs with such ratios of changes to bounds."""
    n = len(ratios)
    return xr.Dataset(
        {
            "bound_ratio": ("pair", ratios),
            "bound_term": ("pair", ["late"] * n),
            "bound_row": ("pair", np.arange(n) + 7),
        }
    )


def test_bounds_are_judged_by_the_row_that_exceeds_its_own_most():
    judged = audits.judge_bounds(step_of(), bounded([0.2, 1.3, np.nan, 1.1]))
    assert judged.verdict == "fail"
    assert judged.message.startswith(
        "'late': observation 8 changes by 1.3 times its bound in pair 1"
    )
    assert "the draws are not exact. Please report it" in judged.message
    own = audits.judge_bounds(step_of(derives=False), bounded([1.3]))
    assert "Enlarge your own bounds" in own.message
    assert audits.judge_bounds(step_of(), bounded([0.2, 1.0])).verdict == "ok"


def test_pairs_beyond_all_bounds_are_warned_of():
    judged = audits.judge_bounds(step_of(), bounded([np.nan, np.nan]))
    assert judged.verdict == "warn"
    assert "bounds hold for none of the pairs" in judged.message
    assert audits.judge_bounds(step_of(bounds=False), bounded([np.nan])).verdict == "ok"


def biased(bias, mcse):
    """Return estimates of the bias of mean and sd of two coordinates."""
    shape = {"moment": ["mean", "sd"], "coordinate": ["a", "b"]}
    values = {"bias": bias, "bias_mcse": np.broadcast_to(mcse, (2, 2))}
    return xr.Dataset(
        {k: (("moment", "coordinate"), np.array(v)) for k, v in values.items()}, shape
    )


def test_a_bias_is_judged_by_what_its_error_leaves_of_it():
    approximate = step_of(exact=False)
    small, large = [[0.0, 0.01], [-0.02, 0.0]], [[0.0, 0.01], [-0.5, 0.0]]
    assert audits.judge_bias(approximate, biased(small, 0.02)).verdict == "ok"
    judged = audits.judge_bias(approximate, biased(large, 0.02))
    assert judged.verdict == "fail"
    assert judged.message.startswith("'a': the estimated bias of its posterior sd is -0.5 ± 0.02")
    # An error as large as this does not exclude a tenth of an sd, and does not prove it.
    assert audits.judge_bias(approximate, biased(small, 0.06)).verdict == "warn"
    assert audits.judge_bias(approximate, biased(large, 0.2)).verdict == "warn"


def test_an_exact_method_may_have_no_bias_at_all():
    little = [[0.0, 0.01], [0.0, 0.0]]
    assert audits.judge_bias(step_of(exact=False), biased(little, 0.001)).verdict == "ok"
    judged = audits.judge_bias(step_of(), biased(little, 0.001))
    assert judged.verdict == "fail"
    assert "'b': the estimated bias of its posterior mean" in judged.message
    assert "please report it" in judged.message


def test_a_coordinate_that_stands_still_fails():
    still = [[0.0, 0.0], [np.nan, 0.0]]
    judged = audits.judge_bias(step_of(), biased(still, 0.01))
    assert judged.verdict == "fail"
    assert judged.message.startswith("'a' does not move in this trace")


def drifting(drift, joint=0.0):
    shape = {"moment": ["mean", "sd"], "coordinate": ["a[0]", "a[1]"]}
    found = xr.Dataset({"drift": (("moment", "coordinate"), np.array(drift))}, shape)
    return found.assign(log_density_drift=joint)


# Of five comparisons 3.7 standard errors are as rare as one in a thousand of all.
@pytest.mark.parametrize(
    "case",
    [
        ([[0.0, 3.5], [0.0, -3.5]], 3.5, "ok", "'a[1]': its mean drifts most"),
        ([[0.0, 1.0], [-4.0, 0.0]], 0.0, "fail", "'a[0]': further updates would change its sd"),
        ([[0.0, np.nan], [4.0, 0.0]], 0.0, "fail", "'a[0]': further updates would change its sd"),
        ([[0.0, 1.0], [0.0, 0.0]], -4.0, "fail", "'a': further updates would change the log"),
        ([[np.nan, np.nan], [0.1, 0.0]], 3.5, "ok", "'a[0]': its sd drifts most"),
    ],
)
def test_a_drift_of_a_moment_or_of_the_log_density_fails(case):
    drift, joint, verdict, begins = case
    judged = audits.judge_drift(drifting(drift, joint))
    assert judged.verdict == verdict
    assert judged.message.startswith(begins)


def batches(skewness, *, largest=1e-6, top=0.1, variance=1e-4, rows=400.0, n=20):
    values = {
        "fewest_rows": rows, "skewness": skewness, "variance": variance,
        "largest_share": largest, "top_share": top,
    }  # fmt: skip
    return xr.Dataset({name: ("pair", np.full(n, value)) for name, value in values.items()})


def test_batches_are_judged_by_skewness_and_their_largest_rows():
    approximate = step_of(exact=False)

    def verdict(*args, n_top=10, **more):
        return audits.judge_normality(approximate, batches(*args, **more), n_top).verdict

    assert verdict(0.1) == "ok"
    # The error is 0.0665 times the skewness of a batch's sum, that of a row over √400.
    assert verdict(0.1 * 20.0) == "ok"
    assert verdict(0.2 * 20.0) == "warn"
    assert verdict(-0.2 * 20.0) == "warn"
    assert verdict(0.9 * 20.0) == "fail"
    # One row as large as a batch's deviation; ten rows that carry half of it, of which one is read.
    assert verdict(0.1, largest=2.0 * 400.0 / 10_000) == "warn"
    assert verdict(0.1, top=0.6) == "warn"
    assert verdict(0.1, top=0.6, n_top=1_000) == "ok"
    # Noise too small to matter, and pairs that all rows decide.
    assert verdict(0.9 * 20.0, variance=1e-9) == "ok"
    assert verdict(0.9 * 20.0, rows=9_000.0) == "ok"
    assert audits.judge_normality(step_of(), batches(18.0), 10).verdict == "ok"


def traced(*, draws=100, **stats):
    """Return a trace with sampler stats as they are where nothing is wrong, but for some."""
    usual = {
        "full_pass": 0.0, "invalid": 0.0, "certified": True, "temperature": 1.0,
        "scaling": 1.0, "accepted_share": 0.5,
    }  # fmt: skip
    values = {
        name: (("chain", "draw"), np.full((2, draws), x)) for name, x in (usual | stats).items()
    }
    posterior = xr.Dataset(
        {"a": (("chain", "draw"), np.zeros((2, draws)))}, attrs={"updates_per_draw": 10}
    )
    return xr.DataTree.from_dict({"/posterior": posterior, "/sample_stats": xr.Dataset(values)})


def test_stats_are_of_all_updates_between_two_draws():
    # Of ten updates a draw, one in ten is let pass.
    assert audits.updates_per_draw(step_of(), traced()) == 10
    assert audits.judge_trace(step_of(), traced(full_pass=0.9)).verdict == "ok"
    judged = audits.judge_trace(step_of(), traced(full_pass=1.2))
    assert judged.verdict == "warn"
    assert "'late': 12% of the updates evaluate all observations" in judged.message
    assert "such as fewer groups" not in judged.message
    assert (
        "such as fewer groups"
        in audits.judge_trace(step_of(elements=8), traced(full_pass=2)).message
    )
    # A method that always reads all rows is not told to read fewer.
    assert audits.judge_trace(step_of(reads_all=True), traced(full_pass=10.0)).verdict == "ok"
    assert (
        "12% of the proposals have a log-density"
        in audits.judge_trace(step_of(), traced(invalid=1.2)).message
    )


def test_coordinates_are_named_by_the_labels_of_the_trace():
    level, place = ("a", "b", "c"), ("EWR", "LGA")
    with pm.Model(coords={"level": level, "place": place}) as model:
        pm.Normal("both", dims=("level", "place"))
        pm.ZeroSumNormal("sums", dims="level")
        pm.Normal("plain", shape=2)
        pm.HalfNormal("scale")
        trace = pm.sample_prior_predictive(2, random_seed=1)
    # A trace may have its axes in another order than the model.
    draws = trace["prior"].to_dataset().transpose("place", "level", ...)
    trace = xr.DataTree.from_dict({"posterior": draws})
    shapes = {"both": (3, 2), "sums_zerosum__": (2,), "plain": (2,), "scale_log__": ()}
    blocks = [
        SimpleNamespace(name=name, shape=shape, entries=None) for name, shape in shapes.items()
    ]
    natural = dict.fromkeys(["both", "sums", "plain", "scale"])
    factorization = SimpleNamespace(blocks=blocks, natural=natural)
    step = FakeMH(target=SimpleNamespace(factorization=factorization))
    assert audits.coordinate_labels(step, model, trace) == [
        *(f"both[{a}, {b}]" for a in level for b in place),
        *("sums_zerosum__[0]", "sums_zerosum__[1]", "plain[0]", "plain[1]", "scale_log__"),
    ]


def test_draws_without_a_certificate_or_at_another_temperature_are_warned_of():
    assert (
        "not all draws are proved" in audits.judge_trace(step_of(), traced(certified=False)).message
    )
    approximate = step_of(exact=False)
    assert audits.judge_trace(approximate, traced(certified=False)).verdict == "ok"
    assert "power 1/2" in audits.judge_trace(approximate, traced(temperature=2.0)).message


def test_traces_that_say_too_little_are_refused():
    audits.require_stats(traced())
    bare = traced()
    del bare["sample_stats"]["scaling"]
    with pytest.raises(SettingError, match=r"^'scaling' is not among the sample_stats"):
        audits.require_stats(bare)
    audits.require_draws(traced(draws=50))
    with pytest.raises(SettingError, match=r"49 draws in a chain"):
        audits.require_draws(traced(draws=49))
