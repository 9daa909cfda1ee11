"""Poisson tests that read some rows at every update: their law, and mistakes that change it."""

from dataclasses import replace

import numpy as np
import pytest

from exactness.compiled import by_counts, chance, matrix_by_counts
from exactness.enumeration import stationary_law
from exactness.poisson import Rule, transition_matrix
from exactness.test_compiled import mixture_chain
from exactness.test_poisson import RULES, chains
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


@pytest.fixture(scope="module")
def chain():
    return with_heavy_rows(mixture_chain(), (1,))


@pytest.fixture(scope="module")
def functions(chain):
    return by_counts(chain, RULES["best"])


@pytest.mark.parametrize("name", COMPILED)
def test_the_loop_steps_as_enumerated(chain, functions, name):
    found = replace(functions, settings=RULES[name]).transitions(UPDATES, seed=51)
    assert chance(found, matrix_by_counts(chain, RULES[name])) > LEVEL


def test_heavy_rows_that_are_left_out_or_drawn_as_well_would_be_noticed(chain, functions):
    posterior, tables = functions.posterior, functions.posterior.tables
    whole = by_counts(replace(mixture_chain(), heavy=()), RULES["best"]).posterior.tables
    mutants = {
        "never read": tables._replace(heavy=NO_ROWS),
        "drawn as well": whole._replace(heavy=tables.heavy, metric=tables.metric),
    }
    matrix = matrix_by_counts(chain, RULES["best"])
    for name, mutant in mutants.items():
        wrong = replace(functions, posterior=posterior._replace(tables=mutant))
        found = wrong.transitions(UPDATES, seed=52)
        assert chance(found, matrix) < 1e-3 * LEVEL, name


def test_what_is_drawn_is_of_the_other_rows(chain, functions):
    tables = functions.posterior.tables
    assert tables.heavy.tolist() == [1]
    light = np.delete(chain.bounds.astype(np.float32), 1)
    assert tables.heads[0, TOTAL] == pytest.approx(light.sum(dtype=np.float64), rel=1e-12)
    # Row 1 is neither kept nor an alias of another row.
    assert tables.thresholds[0, 1] == 0.0
    others = np.delete(np.arange(len(chain.bounds)), 1)
    aliased = tables.thresholds[0, others] < 1.0
    assert 1 not in tables.aliases[0, others[aliased]]
