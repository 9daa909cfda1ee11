"""Poisson tests that read some rows at every update: their law, and mistakes that change it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from exactness.compiled import by_counts, chance, matrix_by_counts
from exactness.enumeration import stationary_law
from exactness.poisson import Rule, transition_matrix
from exactness.test_compiled import mixture_chain
from exactness.test_poisson import RULES, chains
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS, TOTAL
from statistical.budget import LEVEL

UPDATES = 60_000
#: Those whose law is asked of the compiled loop as well.
COMPILED = ("best, delayed", "paper", "factorized")


def with_heavy_rows(chain, heavy=(0,)):
    """Read some rows always; their bounds, of which the test must know nothing, are wrong."""
    bounds = chain.bounds.copy()
    bounds[list(heavy)] *= 1e-3
    return replace(chain, heavy=heavy, bounds=bounds)


@pytest.mark.parametrize("name", RULES)
def test_the_law_is_the_target(name):
    for k, chain in enumerate(chains()[::4]):
        chosen = with_heavy_rows(chain, ((0,), (0, 2), (1,))[k % 3])
        matrix = transition_matrix(chosen, Rule(RULES[name]))
        flow = chosen.target()[:, None] * matrix
        assert np.abs(flow - flow.T).max() <= 1e-14
        assert 0.5 * np.abs(stationary_law(matrix) - chosen.target()).sum() <= 1e-12


@cache
def mixture():
    """Return a chain with one row that is always read."""
    return with_heavy_rows(mixture_chain(), (1,))


@cache
def functions():
    """Return its roles, compiled once for all settings."""
    return by_counts(mixture(), RULES["best"])


@pytest.mark.parametrize("name", COMPILED)
def test_the_loop_steps_as_enumerated(name):
    found = replace(functions(), settings=RULES[name]).transitions(UPDATES, seed=51)
    assert chance(found, matrix_by_counts(mixture(), RULES[name])) > LEVEL


def test_heavy_rows_that_are_left_out_or_drawn_as_well_would_be_noticed():
    posterior, tables = functions().posterior, functions().posterior.tables
    whole = by_counts(replace(mixture_chain(), heavy=()), RULES["best"]).posterior.tables
    mutants = {
        "never read": tables._replace(heavy=NO_ROWS),
        "drawn as well": whole._replace(heavy=tables.heavy, metric=tables.metric),
    }
    matrix = matrix_by_counts(mixture(), RULES["best"])
    for name, mutant in mutants.items():
        wrong = replace(functions(), posterior=posterior._replace(tables=mutant))
        found = wrong.transitions(UPDATES, seed=52)
        assert chance(found, matrix) < 1e-3 * LEVEL, name


def test_what_is_drawn_is_of_the_other_rows():
    tables = functions().posterior.tables
    assert tables.heavy.tolist() == [1]
    light = np.delete(mixture().bounds.astype(np.float32), 1)
    assert tables.heads[0, TOTAL] == pytest.approx(light.sum(dtype=np.float64), rel=1e-12)
    # Row 1 is neither kept nor an alias of another row.
    assert tables.thresholds[0, 1] == 0.0
    others = np.delete(np.arange(len(mixture().bounds)), 1)
    aliased = tables.thresholds[0, others] < 1.0
    assert 1 not in tables.aliases[0, others[aliased]]


def test_a_choice_of_chi_learns_from_the_other_rows():
    largest = functions().posterior.tables.heads[0, TOTAL] * mixture().sizes.max()
    learned = []
    for max_rate in (np.inf, float(1.001 * largest)):
        settings = RULES["MH-SS"]._replace(max_rate=max_rate)
        _, counts = replace(functions(), settings=settings).run(UPDATES, seed=53)
        learned.append(counts.sum(axis=0))
    by_draws, by_all = learned
    # The one row that is always read makes some moves ones that read all of them.
    assert by_draws[entry.FULL_PASS] < by_all[entry.FULL_PASS]
    ratios = [each[entry.SQUARED_RATIOS] / each[entry.N_RATIOS] for each in learned]
    assert ratios[0] == pytest.approx(ratios[1], rel=0.05)
