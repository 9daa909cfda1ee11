"""A Poisson-minibatch step and another step, in turns, leave their joint law invariant.

Rows depend on (θ, ψ). One step moves θ by the shipped test at the current ψ, its control variates
being expanded in both; the other draws ψ given θ.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from law.exactness.enumeration import stationary_law
from law.exactness.poisson import LARGEST, Chain, Rule, logistic, move, student, transition_matrix
from pymc_minibatch_mh.steps import tuna as poisson

STATES, ROWS = 3, 4
DESIGN = list(product((0, 1, 2), (logistic, student), (1.0, 0.6)))
RULES = {
    "best": poisson.poisson_test("best", 0.7),
    "best, too many rows": poisson.poisson_test("best", 0.7, max_rate=1.5),
    "paper, delayed": poisson.poisson_test("paper", 0.7, delayed_acceptance=True),
    "factorized": poisson.poisson_test("factorized"),
}


@dataclass(frozen=True)
class Joint:
    """One chain in θ for every ψ."""

    given: list[Chain]

    def target(self):
        """Return the joint law, shape (ψ, θ)."""
        weights = np.array(
            [c.log_prior + c.inverse_temperature * c.log_likelihood.sum(axis=1) for c in self.given]
        )
        weights = np.exp(weights - weights.max())
        return weights / weights.sum()


def joint_chain(rng, order, family, beta):
    """Return chains whose rows are expanded about one point in θ and ψ together."""
    x, w, response = rng.normal(size=(3, ROWS))
    theta, psi = (1.0 + 0.5 * order) * rng.normal(size=(2, STATES))
    centre = 0.3 * rng.normal(size=2)
    _, slope, curvature = family(centre[0] * x + centre[1] * w, response)
    value = np.empty((STATES, STATES, ROWS))
    expansion = np.empty_like(value)
    for k, j in product(range(STATES), repeat=2):
        step = (theta[j] - centre[0]) * x + (psi[k] - centre[1]) * w
        value[k, j] = family(theta[j] * x + psi[k] * w, response)[0]
        expansion[k, j] = (order > 0) * slope * step + (order > 1) * 0.5 * curvature * step**2
    bounds = rng.uniform(0.5, 1.5, size=ROWS)
    remainder = value - expansion
    sizes = 1.1 * (beta * np.abs(remainder[:, :, None] - remainder[:, None]) / bounds).max(axis=3)
    weight = LARGEST / (bounds.sum() * sizes.max())
    # A prior that makes up for the expansion: otherwise one state holds all mass.
    log_prior = 0.7 * rng.normal(size=(STATES, STATES)) - beta * weight * expansion.sum(axis=2)
    proposals = rng.uniform(0.2, 1.0, size=(1, STATES, STATES))
    proposals /= proposals.sum(axis=2, keepdims=True)
    return Joint(
        [
            Chain(
                log_prior=log_prior[k],
                log_likelihood=weight * value[k],
                expansion=weight * expansion[k],
                inverse_temperature=beta,
                weights=np.ones(1),
                proposals=proposals,
                bounds=bounds,
                sizes=weight * sizes[k],
                outside=np.arange(STATES) == k,
            )
            for k in range(STATES)
        ]
    )


def in_turns(joint, rule_for):
    """Return the transition matrix of one turn of both steps, over (ψ, θ)."""
    size = STATES * STATES
    first, second = np.zeros((size, size)), np.zeros((size, size))
    law = joint.target()
    for k, chain in enumerate(joint.given):
        block = slice(k * STATES, (k + 1) * STATES)
        first[block, block] = transition_matrix(chain, rule_for(k))
        for j in range(STATES):
            second[k * STATES + j, j::STATES] = law[:, j] / law[:, j].sum()
    return first @ second


def distance(joint, rule_for):
    law = stationary_law(in_turns(joint, rule_for))
    return 0.5 * np.abs(law - joint.target().ravel()).sum()


def joints():
    rng = np.random.default_rng(20261121)
    return [joint_chain(rng, *case) for case in DESIGN]


@pytest.mark.parametrize("name", RULES)
def test_both_steps_in_turns_have_the_joint_law(name):
    distances = [distance(joint, lambda _: Rule(RULES[name])) for joint in joints()]
    assert max(distances) <= 1e-12


def test_a_cheap_part_at_a_stale_value_is_noticed():
    distances = []
    for joint in joints():

        def stale(k, joint=joint):
            # The expansion that was summed when ψ had its first value.
            before = joint.given[0]

            def moved(chain, settings, *pair):
                cheap = move(replace(chain, expansion=before.expansion), settings, *pair).cheap
                return replace(move(chain, settings, *pair), cheap=cheap)

            return Rule(RULES["best"], move=moved)

        distances.append(distance(joint, stale))
    # A linear expansion has no term in both, so that its change in θ does not depend on ψ.
    curved = [d for d, (order, *_) in zip(distances, DESIGN, strict=True) if order == 2]
    assert min(curved) > 1e-4
    assert max(curved) > 0.05
