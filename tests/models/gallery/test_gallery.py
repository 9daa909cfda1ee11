"""Models that others wrote: each is certified, read or refused as recorded."""

import json
from collections import Counter
from functools import cache

import numpy as np
import pymc as pm
import pytest

from benchmarks.run_gallery import CHAINS, FILE, measured, sampled
from docs.tools.gallery_page import PAGE, filled
from helpers.tiers import fast
from model.evaluation import assert_read_rightly, split_of
from models.gallery.catalogue import EXAMPLES
from models.gallery.record import TALL, Example, verdict
from pymc_minibatch_mh import TunaMH, overdispersed_initvals

ROWS = 1_500
# The starting point of an LKJCholeskyCov is drawn in C.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")
READ = [name for name, example in EXAMPLES.items() if example.expected != "refused"]
#: Largest accepted distance of a mean in the slow tests, in Monte Carlo errors, and the ends of the
#: ratio of sds: few hundred effective draws of NUTS say little of a scale with heavy tails.
MEAN, SD = 5.0, (0.75, 1.35)
#: Independent runs whose spread is the error of their mean.
REPLICATES = 30


@cache
def live(name):
    return verdict(EXAMPLES[name], ROWS)


@cache
def stored():
    return json.loads(FILE.read_text())["results"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_verdict_is_the_recorded_one(name):
    found, message = live(name)
    assert found == EXAMPLES[name].expected
    assert EXAMPLES[name].reason in message
    assert bool(message) == bool(EXAMPLES[name].reason)


def test_most_models_are_certified():
    counts = Counter(example.expected for example in EXAMPLES.values())
    assert counts["exact"] >= 10
    sampled = [r for r in stored().values() if r["verdict"] in ("exact", "order 2")]
    assert len(sampled) >= 15
    assert counts["refused"] <= 5
    assert sum(bool(x.no_mode) or x.reads_all for x in EXAMPLES.values()) <= 3


@pytest.mark.parametrize("name", fast(READ, READ[::3]))
def test_rows_are_those_of_the_model(name):
    model = EXAMPLES[name].build(60)
    assert_read_rightly(model, split_of(model))


def kinked(rows):
    y = np.random.default_rng(5).normal(size=rows)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        # A kink that all observations share.
        pm.Normal("y", pm.math.abs(mu), 1.0, observed=y)
    return model


def chained(rows):
    y = np.random.default_rng(5).normal(size=rows)
    with pm.Model() as model:
        rho = pm.Normal("rho")
        pm.AR("y", rho=[rho], sigma=1.0, steps=rows - 1, init_dist=pm.Normal.dist(), observed=y)
    return model


@pytest.mark.parametrize(
    ("build", "truth", "found", "reason"),
    [
        (kinked, {"mu": 0.0}, "order 2", "unbounded over the trust region"),
        (chained, {}, "refused", "not conditionally independent"),
    ],
)
def test_a_verdict_can_be_another_one(build, truth, found, reason):
    example = Example(build, "", "", truth=truth)
    kind, message = verdict(example, ROWS)
    assert kind == found
    assert reason in message


def test_every_original_is_named():
    assert all(e.title and ": " in e.source for e in EXAMPLES.values())
    originals = Counter((e.source, e.ported) for e in EXAMPLES.values())
    assert max(originals.values()) == 1


def test_the_results_are_of_these_verdicts():
    assert list(stored()) == list(EXAMPLES)
    for name, result in stored().items():
        if EXAMPLES[name].no_mode:
            assert result["verdict"] == "no mode"
            assert EXAMPLES[name].no_mode in result["message"]
        elif EXAMPLES[name].reads_all:
            assert result["verdict"] == "reads all rows"
        else:
            assert result["verdict"] == live(name)[0], name
            assert result["verdict"] != "refused" or result["message"] == live(name)[1]


def test_the_page_shows_the_results():
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page, stored()) == page


def test_another_result_would_show():
    page = PAGE.read_text(encoding="utf-8")
    other = stored() | {READ[0]: stored()[READ[0]] | {"acceptance": 0.123}}
    assert filled(page, other) != page


# Both are said of NUTS: of steps that are too wide in warm-up, and of arrays in its graph.
@pytest.mark.filterwarnings("ignore:overflow encountered in dot:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Cannot cache compiled function:numba.core.errors.NumbaWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", READ)
def test_draws_are_those_of_nuts(name):
    result = measured(EXAMPLES[name])
    if EXAMPLES[name].no_mode:
        assert EXAMPLES[name].no_mode in result["message"]
        return
    if EXAMPLES[name].reads_all:
        assert result["verdict"] == "reads all rows"
        return
    assert result["rhat"] < 1.02
    assert result["mean_in_mcse"] < MEAN
    assert SD[0] < result["least_sd_ratio"] <= result["largest_sd_ratio"] < SD[1]


def law_of_scale(draws, scale, effects):
    """Return mean and sd of a scale of the teams' effects, from their contrasts.

    Scores of 20,000 matches tell the effects apart from their mean, which stays free: given the
    five contrasts, the density of the scale is s**-5 exp(-sum(contrast**2) / (2 s**2)) times its
    prior.
    """
    teams = np.array([draws[f"{effects}[{k}]"] for k in range(6)])
    total = ((teams - teams.mean(axis=0)) ** 2).sum(axis=0).mean()
    s = np.exp(np.linspace(-4.0, 3.0, 100_001))
    mass = s**-4.0 * np.exp(-0.5 * total / s**2 - s**2 / 8.0)
    mean = (mass * s).sum() / mass.sum()
    return mean, np.sqrt((mass * s**2).sum() / mass.sum() - mean**2), draws[f"{scale}[0]"]


@pytest.mark.slow
def test_scales_of_six_teams_have_their_own_law():
    model = EXAMPLES["rugby"].build(TALL)
    step = TunaMH(model=model)
    gaps = []
    # The tails mix so slowly that a run's own Monte Carlo error is too small by half: errors come
    # from the spread of independent runs.
    for seed in range(1_000, 1_000 + REPLICATES):
        starts = overdispersed_initvals(step, CHAINS, random_seed=seed)
        draws, _, _ = sampled(model, seed, step=step, draws=10_000, tune=2_000, initvals=starts)
        for scale, effects in (("sd_att", "atts_star"), ("sd_def", "defs_star")):
            mean, sd, found = law_of_scale(draws, scale, effects)
            gaps.append((found.mean() - mean) / sd)
    gaps = np.reshape(gaps, (REPLICATES, 2))
    error = gaps.std(axis=0, ddof=1) / np.sqrt(REPLICATES)
    assert (np.abs(gaps.mean(axis=0)) < 4.0 * error).all()
    assert (4.0 * error < 0.25).all()
