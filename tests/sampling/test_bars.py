"""What a run shows while it goes on: how far chains are, and running means."""

import io

import numpy as np
import pytest
import rich
from rich.console import Console

from pymc_minibatch_mh.chain.chain import Draws
from pymc_minibatch_mh.native.statistics import COUNTS
from pymc_minibatch_mh.sampling.workers import Bars, ChainProgress


def block(draws, rows, accepted):
    counts = np.zeros(draws, COUNTS)
    counts["n_obs"] = rows
    counts["accepted"] = accepted
    return Draws(np.zeros((draws, 2)), counts)


@pytest.fixture
def progress():
    """A chain after 50 draws of warm-up and 20 others of 5 updates."""
    chain = ChainProgress()
    chain.count(block(50, 900, 1), 5, 1.0, tuning=True)
    chain.count(block(10, 15, 4), 5, 0.5, tuning=False)
    chain.count(block(10, 25, 2), 5, 0.5, tuning=False)
    return chain


def test_means_are_those_since_warm_up_ended(progress):
    assert (progress.tuned, progress.drawn, progress.updates) == (50, 20, 100)
    assert (progress.rows, progress.accepted, progress.seconds) == (400.0, 60.0, 1.0)


@pytest.mark.parametrize(("watched", "asked_for"), [(True, True), (False, True), (True, False)])
def test_they_are_shown_where_somebody_watches(progress, monkeypatch, watched, asked_for):
    console = Console(file=io.StringIO(), force_terminal=watched, width=80)
    monkeypatch.setattr(rich, "_console", console)
    with Bars(1, 170, shown=asked_for) as bars:
        bars.show([progress])
    text = console.file.getvalue()
    shown = ("Chain 0", "70/170", "4 rows/update", "60% accepted", "100/s")
    assert all((part in text) == (watched and asked_for) for part in shown), text
    assert asked_for or text == ""
