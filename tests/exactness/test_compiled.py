"""The compiled loop steps as often from state to state as the enumerated matrices say."""

from dataclasses import replace

import numpy as np
import pytest

from exactness import kernels
from exactness.compiled import by_counts, by_looks, chance, matrix_by_counts
from exactness.enumeration import transition_matrix
from exactness.poisson import logistic, random_chain
from exactness.test_poisson import RULES
from statistical.budget import LEVEL

UPDATES = 60_000


def mixture_chain():
    """Two components of the proposal, one state that all rows decide, and forms that differ."""
    rng = np.random.default_rng(0)
    return random_chain(rng, order=1, family=logistic, beta=0.6, components=2, outside=1)


@pytest.fixture(scope="module")
def chain():
    return mixture_chain()


@pytest.fixture(scope="module")
def functions(chain):
    """The roles, compiled once for all settings."""
    return by_counts(chain, RULES["best"])


@pytest.mark.parametrize("name", RULES)
def test_poisson_tests_step_as_enumerated(chain, functions, name):
    found = replace(functions, settings=RULES[name]).transitions(UPDATES, seed=41)
    assert chance(found, matrix_by_counts(chain, RULES[name])) > LEVEL


@pytest.mark.parametrize("name", kernels.RULES)
def test_tests_that_read_batches_step_as_enumerated(name):
    found = by_looks(name).transitions(UPDATES, seed=42)
    matrix = transition_matrix(kernels.CHAINS["clean"], kernels.RULES[name])
    assert chance(found, matrix) > LEVEL


@pytest.mark.parametrize(
    ("run", "enumerated"),
    [
        ("MH-SS", "factorized"),
        ("best", "best, delayed"),
        ("paper", "MH-SS"),
        ("best", "paper, chi=0"),
    ],
)
def test_another_form_would_be_noticed(chain, functions, run, enumerated):
    found = replace(functions, settings=RULES[run]).transitions(UPDATES, seed=43)
    assert chance(found, matrix_by_counts(chain, RULES[enumerated])) < 1e-3 * LEVEL


def test_what_the_update_is_handed_counts(chain, functions):
    """Bounds that are too small, and a likelihood that is not tempered."""
    posterior, tables = functions.posterior, functions.posterior.tables
    tolerant = RULES["best"]._replace(tolerates=1)
    low = tables._replace(heads=tables.heads * [1.0, 1.0, 0.25], c=tables.c / 4)
    cold = posterior.surrogate._replace(inverse_temperature=1.0)
    mutants = [
        replace(functions, posterior=posterior._replace(tables=low)),
        replace(functions, posterior=posterior._replace(surrogate=cold)),
    ]
    matrix = matrix_by_counts(chain, RULES["best"])
    for mutant in mutants:
        found = replace(mutant, settings=tolerant).transitions(UPDATES, seed=44)
        assert chance(found, matrix) < LEVEL


def test_a_chain_has_states_on_both_sides_of_the_radius(chain):
    assert 0 < chain.outside.sum() < len(chain.outside)
    assert len(chain.weights) == 2
    assert np.abs(chain.proposals - chain.proposals.transpose(0, 2, 1)).max() > 0.1
