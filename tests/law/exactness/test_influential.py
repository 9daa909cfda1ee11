"""Poisson tests that read some rows at every update: their law, and what is drawn beside these."""

import numpy as np
import pytest

from law.exactness import law
from law.exactness.compiled import BY_BOUNDS, by_counts
from law.exactness.enumeration import total_variation
from law.exactness.poisson import (
    RULES,
    Rule,
    chains,
    mixture_chain,
    reading_always,
    transition_matrix,
)
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.native.statistics import summed

pytestmark = BY_BOUNDS

UPDATES = 60_000


@pytest.mark.parametrize("name", RULES)
def test_the_law_is_the_target(name):
    for k, chain in enumerate(chains()[::4]):
        chosen = reading_always(chain, ((0,), (0, 2), (1,))[k % 3])
        matrix = transition_matrix(chosen, Rule(RULES[name]))
        assert law.imbalance(matrix, chosen.target()) <= 1e-14
        assert total_variation(matrix, chosen.target()) <= 1e-12


def loop(settings):
    """Return a chain with one row that is always read, for the loop."""
    return by_counts(mixture_chain((1,)), settings)


def test_what_is_drawn_is_of_the_other_rows():
    tables, bounds = loop(RULES["best"]).posterior.bounds, mixture_chain((1,)).bounds
    assert tables.heavy.tolist() == [1]
    light = np.delete(bounds.astype(np.float32), 1)
    assert tables.headers[0, TOTAL] == pytest.approx(light.sum(dtype=np.float64), rel=1e-12)
    # Row 1 is neither kept nor an alias of another row.
    assert tables.thresholds[0, 1] == 0.0
    others = np.delete(np.arange(len(bounds)), 1)
    aliased = tables.thresholds[0, others] < 1.0
    assert 1 not in tables.aliases[0, others[aliased]]


def test_a_choice_of_chi_learns_from_the_other_rows():
    size = loop(RULES["MH-SS"]).posterior.bounds.headers[0, TOTAL]
    largest = size * mixture_chain((1,)).sizes.max()
    learned = []
    for max_rate in (np.inf, float(1.001 * largest)):
        settings = RULES["MH-SS"]._replace(max_rate=max_rate)
        _, counts = loop(settings).run(UPDATES, seed=53)
        learned.append(summed(counts))
    by_draws, by_all = learned
    # The one row that is always read makes some moves ones that read all of them.
    assert by_draws["full_pass"] < by_all["full_pass"]
    ratios = [each["squared_ratios"] / each["n_ratios"] for each in learned]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.05)
