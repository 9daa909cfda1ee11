"""The Poisson-minibatch tests are exact on small chains, and mutants of them are not."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from helpers.tiers import fast
from law.exactness import law
from law.exactness import poisson as enumeration
from law.exactness.enumeration import total_variation
from law.exactness.poisson import RULES, Rule, accept, chains, matrices, transition_matrix
from pymc_minibatch_mh.steps import tuna as poisson

EXACT = json.loads(law.EXACT_FILE.read_text())
#: Rules that between them have every form, χ or none, a second stage and pairs of too many rows.
SOME = ("best", "best, too many rows", "best, delayed", "paper", "MH-SS", "factorized")
every_rule = pytest.mark.parametrize("name", fast(RULES, SOME))


def test_chains_have_room_to_be_wrong():
    assert min(chain.target().min() for chain in chains()) > 0.01
    by_all_rows = []
    for chain in chains():
        states = range(len(chain.log_prior))
        for i, j in product(states, states):
            there, back = (
                enumeration.move(chain, RULES["best, too many rows"], *pair, 0)
                for pair in ((i, j), (j, i))
            )
            assert there.by_all_rows == back.by_all_rows
            assert np.all(np.abs(there.changes) <= there.bounds)
            by_all_rows.append(there.by_all_rows)
    assert 0.2 < np.mean(by_all_rows) < 0.8


@every_rule
def test_stationary_law_is_the_target(name):
    """And one step keeps it, by detailed balance; every state leads to every other one."""
    found, stored = law.worst(chains(), matrices(name)), EXACT[name]
    assert found["chains"] >= 50
    for figures in (found, stored):
        assert max(figures["total variation"], figures["drift"]) <= 1e-12
        assert figures["imbalance"] <= 1e-14
    assert found["gap"] > 1e-4
    # As the page has it, up to rounding.
    assert found == pytest.approx(stored, rel=0, abs=1e-10)
    for moves in matrices(name):
        assert law.is_one_of_moves(moves)
        assert moves[~np.eye(len(moves), dtype=bool)].min() > 0.0


ORDER = [
    ("best", "paper"),
    ("MH-SS", "factorized"),
    ("best", "MH-SS"),
    ("best", "best, delayed"),
    ("best, too many rows", "best"),
    # The others are enumerated for this alone.
    *(
        pytest.param(*pair, marks=pytest.mark.slow)
        for pair in (
            ("MH-SS", "paper, chi=0"),
            ("best, delayed", "paper, delayed"),
            ("best, large chi", "best"),
        )
    ),
]


@pytest.mark.parametrize(("better", "worse"), ORDER)
def test_order_of_acceptance(better, worse):
    gains = []
    for more, fewer in zip(matrices(better), matrices(worse), strict=True):
        gains.append((more - fewer)[~np.eye(len(more), dtype=bool)])
        assert gains[-1].min() >= -1e-14
    assert np.concatenate(gains).max() > 1e-3


def full_data_matrix(chain):
    return transition_matrix(chain, Rule(poisson.poisson_test(max_rate=0.0)))


def spectral_gap(matrix):
    return 1.0 - np.sort(np.linalg.eigvals(matrix).real)[-2]


def test_spectral_gap_is_kept():
    for name, ratio in (("best", 0.2), ("paper", 0.2), ("best", 0.6), ("paper", 0.6)):
        settings = poisson.poisson_test(name, poisson.chi_for_gap(ratio))
        for chain in chains()[::12]:
            # Weaker rows, since counts grow like χ (C M)².
            weak = replace(
                chain,
                log_likelihood=0.3 * chain.log_likelihood,
                expansion=0.3 * chain.expansion,
                sizes=0.3 * chain.sizes,
            )
            gap = spectral_gap(transition_matrix(weak, Rule(settings)))
            assert gap >= ratio * spectral_gap(full_data_matrix(weak))


# Mutants: of the move ...


def moving(change):
    """Alter a move, given the chain, the pair and the component too."""

    def move(chain, settings, *pair):
        shipped = enumeration.move(chain, settings, *pair)
        return replace(shipped, **change(shipped, chain, *pair))

    return {"move": move}


def scaled_bounds(factor):
    return moving(lambda move, *_: {"bounds": factor * move.bounds})


def temperature_missing_from_bounds(move, chain, *_):
    return {"bounds": move.bounds / chain.inverse_temperature}


def larger_bound_upwards(move, chain, i, j, _):
    return {"bounds": move.bounds * (1.5 if i < j else 1.0)}


def chi_of_the_direction(move, chain, i, j, _):
    factor = 2.0 if i < j else 1.0
    return {"settings": move.settings._replace(chi=factor * move.settings.chi)}


def log_ratio_of_proposals(chain, i, j, component):
    return np.log(chain.proposals[component, j, i] / chain.proposals[component, i, j])


def proposal_ratio_dropped(move, chain, *pair):
    return {"cheap": move.cheap - log_ratio_of_proposals(chain, *pair)}


def ratio_of_the_wrong_component(move, chain, i, j, component):
    right = log_ratio_of_proposals(chain, i, j, component)
    return {"cheap": move.cheap - right + log_ratio_of_proposals(chain, i, j, 1 - component)}


def all_rows_upwards(move, *_):
    return {"by_all_rows": move.cheap - move.changes.sum() > 0.0}


def all_rows_on_the_way_out(move, chain, i, j, _):
    return {"by_all_rows": chain.outside[j]}


# ... of the sum over counts ...


def all_rows_after_a_violation(rule, move):
    expected = rule.rate(move.bounds.sum(), move.settings) * move.bounds / move.bounds.sum()
    violating = np.abs(move.changes) > move.bounds
    unseen = np.exp(-expected[violating].sum())
    bounds = np.where(violating, 0.0, expected) / expected.sum()
    products, weights = enumeration.log_products(rule, move, shares=bounds)
    return np.append(products, -move.changes.sum()), np.append(unseen * weights, 1.0 - unseen)


# ... and of the decision.


def everything_in_the_second_stage(cheap, log_product, delayed):
    return accept(cheap, cheap + log_product, delayed)


#: name -> (shipped rule, what is replaced)
MUTANTS = {
    "bounds x 0.75": ("best", scaled_bounds(0.75)),
    "bounds x 0.5": ("best", scaled_bounds(0.5)),
    "bounds x 0.75, MH-SS": ("MH-SS", scaled_bounds(0.75)),
    "bounds x 0.75, paper": ("paper", scaled_bounds(0.75)),
    "bounds x 0.75, factorized": ("factorized", scaled_bounds(0.75)),
    "bounds x 0.75, delayed": ("best, delayed", scaled_bounds(0.75)),
    "bounds without temperature": ("best", moving(temperature_missing_from_bounds)),
    "M not symmetric": ("best", moving(larger_bound_upwards)),
    "chi of the direction": ("best", moving(chi_of_the_direction)),
    "proposal ratio dropped": ("best", moving(proposal_ratio_dropped)),
    "ratio of the wrong component": ("best", moving(ratio_of_the_wrong_component)),
    "all rows upwards": ("best", moving(all_rows_upwards)),
    "all rows on the way out": ("best", moving(all_rows_on_the_way_out)),
    "all rows after a violation": (
        "best",
        scaled_bounds(0.5) | {"log_products": all_rows_after_a_violation},
    ),
    "full ratio in the second stage of all rows": (
        "best, delayed",
        {"accept_by_all_rows": everything_in_the_second_stage},
    ),
}


def distances_of_mutant(name):
    """Give the distances of a mutant on the chains with mixtures and states outside."""
    rule, replaced = MUTANTS[name]
    mutant = Rule(RULES[rule], **replaced)
    return (total_variation(transition_matrix(c, mutant), c.target()) for c in chains()[3::8])


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_not_exact(name):
    assert any(found > 1e-4 for found in distances_of_mutant(name))


def test_bias_grows_with_the_violation():
    little, much = (np.median([*distances_of_mutant(f"bounds x {f}")]) for f in (0.75, 0.5))
    assert 1e-3 < 2.0 * little < much
