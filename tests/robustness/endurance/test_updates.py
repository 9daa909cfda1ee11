"""Ten million updates, and hundreds of thousands of draws, without growing."""

import pickle
import sys

import numpy as np
import pytest

from diagnostics.memory import resident
from helpers.recording import record
from helpers.zoo import METHODS
from pymc_minibatch_mh.chain import chain as warmup

pytestmark = pytest.mark.slow

SEED = 20_260_302
MODEL = "two_likelihoods"
#: Draws before memory counts: caches fill, and windows adapt.
WARM_UP = 100
#: MiB that a million updates, and that 200,000 draws, may add: of a draw, no number may stay.
PER_MILLION_UPDATES, PER_RUN_OF_DRAWS = 1.0, 2.0
#: MiB of the smallest object of Python. What is free in the memory of a process that has run for
#: long takes up many of them without growing.
SMALLEST = 16 / 2**20


def growth(step, draws):
    """Return the MiB that a process, or what its objects need, has grown by after warm-up."""
    step.setup_chain(np.random.default_rng(SEED), WARM_UP // 2, draws)
    point = step.gaussian_draw(np.random.default_rng(SEED), 1.0)
    for k in range(WARM_UP):
        if k == WARM_UP // 2:
            step.stop_tuning()
        point, _ = step.step(point)
    size = len(pickle.dumps(step.sampling_state))
    objects, before = sys.getallocatedblocks(), resident()
    most = before
    for k in range(draws):
        point, _ = step.step(point)
        if k % 100 == 0:
            most = max(most, resident())
    objects = sys.getallocatedblocks() - objects
    assert np.isfinite(step.target.factorization.ravel(point)).all()
    assert len(pickle.dumps(step.sampling_state)) == pytest.approx(size, abs=64)
    return max(most - before, resident() - before, objects * SMALLEST)


#: Updates per draw, of which there are 1,000; these read too many rows for ten million.
UPDATES = dict.fromkeys(METHODS, 10_000)
UPDATES |= {"AustereMH": 500, "ConfidenceMH": 500, "FireflyMH": 2_000}


@pytest.mark.parametrize("method", METHODS)
def test_millions_of_updates_need_no_more_memory(prepared, method):
    draws, updates = 1_000, UPDATES[method]
    grown = growth(prepared(MODEL, method, updates_per_draw=updates), draws)
    million = draws * updates / 1e6
    record(
        "robustness/endurance",
        f"memory, {method}, {million:g} million updates",
        asked=f"at most {PER_MILLION_UPDATES:g} MiB per million updates",
        measured=f"{grown / million:.3f} MiB per million updates",
        seed=SEED,
    )
    assert grown <= PER_MILLION_UPDATES * million


@pytest.mark.parametrize("method", METHODS)
def test_many_draws_need_no_more_memory(prepared, method):
    draws = 200_000
    grown = growth(prepared(MODEL, method), draws)
    record(
        "robustness/endurance",
        f"memory, {method}, {draws:,} draws",
        asked=f"at most {PER_RUN_OF_DRAWS:g} MiB, which is {PER_RUN_OF_DRAWS * 2**20 / draws:.0f} "
        "bytes per draw",
        measured=f"{grown:.2f} MiB",
        seed=SEED,
    )
    assert grown <= PER_RUN_OF_DRAWS


def test_a_step_that_keeps_one_number_per_draw_is_noticed(prepared, monkeypatch):
    plain, kept = warmup.accumulate_statistics, []

    def leaking(chain, updates, positions, counts):
        kept.append(float(positions[0, 0]))
        plain(chain, updates, positions, counts)

    monkeypatch.setattr(warmup, "accumulate_statistics", leaking)
    assert growth(prepared(MODEL, "PenaltyMH"), 200_000) > PER_RUN_OF_DRAWS
