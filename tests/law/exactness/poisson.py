"""Transition matrices of the Poisson-minibatch tests, summed over every vector of counts.

The function that is enumerated is the shipped `mh_thin`, beside the acceptance probability. Row i
of a move is kept a Poisson number of times with mean R c_i/C times its probability to be kept.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
from scipy.special import expit

from helpers.in_library import accept_many as accept
from helpers.in_library import rate, thin
from law.exactness.enumeration import Tempered
from pymc_minibatch_mh.steps import tuna as poisson

#: Probabilities of counts and of vectors of counts that are taken for 0.
NEGLIGIBLE = 1e-19
MOST_COUNTS = np.arange(1.0, 60.0)
LARGEST = 2.0
DEGREES_OF_FREEDOM = 4.0


@dataclass(frozen=True)
class Chain(Tempered):
    """A discrete state space, its rows, and a mixture of proposals.

    Shapes: log_prior (S,), log_likelihood and expansion (S, N), weights (K,), proposals
    (K, S, S), bounds (N,), sizes (S, S), outside (S,). Rows of `heavy` are read by every test.
    """

    log_prior: np.ndarray
    log_likelihood: np.ndarray
    expansion: np.ndarray
    inverse_temperature: float
    weights: np.ndarray
    proposals: np.ndarray
    bounds: np.ndarray
    sizes: np.ndarray
    outside: np.ndarray
    heavy: tuple[int, ...] = ()


@dataclass(frozen=True)
class Move:
    """What the compiled test knows of a pair: λ_c, dU_i, c_i M, and who decides.

    `known` is what rows that are always read add to the log ratio; the others can be drawn.
    """

    cheap: float
    changes: np.ndarray
    bounds: np.ndarray
    by_all_rows: bool
    settings: poisson.PoissonTest
    known: float = 0.0


def move(chain, settings, i, j, component):
    """Return the move from state i to state j by a component of the proposal."""
    beta, proposal = chain.inverse_temperature, chain.proposals[component]
    cheap = chain.log_prior + beta * chain.expansion.sum(axis=1)
    remainder = chain.log_likelihood - chain.expansion
    drawn = np.delete(np.arange(len(chain.bounds)), chain.heavy)
    bounds = chain.bounds[drawn] * chain.sizes[i, j]
    expected = rate(bounds.sum(), settings) + len(chain.heavy)
    changes = -beta * (remainder[j] - remainder[i])
    return Move(
        cheap=cheap[j] - cheap[i] + np.log(proposal[j, i]) - np.log(proposal[i, j]),
        changes=changes[drawn],
        bounds=bounds,
        by_all_rows=expected > settings.max_rate or chain.outside[i] or chain.outside[j],
        settings=settings,
        known=-changes[list(chain.heavy)].sum(),
    )


def counts_of(mean):
    """Return the counts of a Poisson variable that matter, and their probabilities."""
    masses = np.exp(-mean) * np.cumprod(np.append(1.0, mean / MOST_COUNTS))
    counts = np.flatnonzero(masses >= NEGLIGIBLE)
    assert counts[-1] < MOST_COUNTS[-1]
    return counts, masses[counts]


def log_products(rule, move, shares=None):
    """Return the log products over the kept rows, and their probabilities.

    `shares` are the probabilities of the rows to be drawn (None: c_i/C).
    """
    size = move.bounds.sum()
    expected = rule.rate(size, move.settings)
    shares = move.bounds / size if shares is None else shares
    products, weights = np.zeros(1), np.ones(1)
    changes = np.clip(move.changes, -move.bounds, move.bounds)
    for change, bound, share in zip(changes, move.bounds, shares, strict=True):
        keep, log_ratio = rule.thin(change, bound, size, move.settings)
        counts, masses = counts_of(expected * share * keep)
        added = np.zeros(len(counts))
        added[counts > 0] = counts[counts > 0] * log_ratio
        products = np.add.outer(products, added).ravel()
        weights = np.multiply.outer(weights, masses).ravel()
        matters = weights >= NEGLIGIBLE
        products, weights = products[matters], weights[matters]
    return products, weights


@dataclass(frozen=True)
class Rule:
    """The shipped functions and the loop around them; a mutant replaces one of them."""

    settings: poisson.PoissonTest
    rate: Callable = rate
    thin: Callable = thin
    accept: Callable = accept
    accept_by_all_rows: Callable = accept
    move: Callable = move
    log_products: Callable = log_products


def acceptance(rule, move):
    """Return the probability that a move is accepted, over all vectors of counts."""
    delayed = float(move.settings.delayed)
    if move.by_all_rows:
        return rule.accept_by_all_rows(move.cheap, move.known - move.changes.sum(), delayed)
    products, weights = rule.log_products(rule, move)
    return weights @ rule.accept(move.cheap, move.known + products, delayed)


def mixture_matrix(chain, accepted):
    """Return the transition matrix, shape (S, S), by the chances accepted(i, j, component)."""
    states = len(chain.log_prior)
    matrix = np.zeros((states, states))
    for i in range(states):
        for j in range(states):
            if i == j:
                continue
            for k, weight in enumerate(chain.weights):
                matrix[i, j] += weight * chain.proposals[k, i, j] * accepted(i, j, k)
        matrix[i, i] = 1.0 - matrix[i].sum()
    return matrix


def transition_matrix(chain, rule):
    """Return the transition matrix of a rule."""
    return mixture_matrix(
        chain, lambda *pair: acceptance(rule, rule.move(chain, rule.settings, *pair))
    )


def logistic(predictor, response):
    """Return log-likelihoods, first and second derivatives for responses of either sign."""
    signed = np.sign(response) * predictor
    slope = np.sign(response) * expit(-signed)
    return -np.logaddexp(0.0, -signed), slope, -expit(signed) * expit(-signed)


def student(predictor, response):
    """Return log-likelihoods up to a constant, first and second derivatives."""
    residual = response - predictor
    scale = DEGREES_OF_FREEDOM + residual**2
    shape = DEGREES_OF_FREEDOM + 1.0
    value = -0.5 * shape * np.log1p(residual**2 / DEGREES_OF_FREEDOM)
    curvature = shape * (residual**2 - DEGREES_OF_FREEDOM) / scale**2
    return value, shape * residual / scale, curvature


def random_chain(rng, *, order, family, beta, components, outside):
    """Return a chain of a scalar regression, expanded to an order about a point.

    Sizes are the smallest that hold, times 1.1; rows are weighted to make `LARGEST` the largest
    C M of all pairs.
    """
    states, rows = rng.integers(3, 6), rng.integers(3, 5)
    positions = (1.0 + 0.6 * order) * rng.normal(size=states)
    covariate, response = rng.normal(size=rows), rng.normal(size=rows)
    offset, centre = rng.normal(size=rows), 0.3 * rng.normal()
    value = family(offset + np.outer(positions, covariate), response)[0]
    _, slope, curvature = family(offset + centre * covariate, response)
    step = np.outer(positions - centre, covariate)
    expansion = (order > 0) * slope * step + (order > 1) * 0.5 * curvature * step**2
    bounds = rng.uniform(0.5, 1.5, size=rows)
    remainder = value - expansion
    sizes = 1.1 * (beta * np.abs(remainder[:, None] - remainder) / bounds).max(axis=2)
    row_weight = LARGEST / (bounds.sum() * sizes.max())
    # A prior that makes up for the expansion: otherwise one state holds all mass.
    log_prior = 0.7 * rng.normal(size=states) - beta * row_weight * expansion.sum(axis=1)
    proposals = rng.uniform(0.2, 1.0, size=(components, states, states))
    return Chain(
        log_prior=log_prior,
        log_likelihood=row_weight * value,
        expansion=row_weight * expansion,
        inverse_temperature=beta,
        weights=rng.dirichlet(np.ones(components)),
        proposals=proposals / proposals.sum(axis=2, keepdims=True),
        bounds=bounds,
        sizes=row_weight * sizes,
        outside=np.arange(states) < outside,
    )


def reading_always(chain, heavy):
    """Return a chain that reads some rows always.

    Their bounds, of which the test must know nothing, are wrong.
    """
    bounds = chain.bounds.copy()
    bounds[list(heavy)] *= 1e-3
    return replace(chain, heavy=heavy, bounds=bounds)


@cache
def mixture_chain(heavy=()):
    """Return two components of the proposal, one state that all rows decide, and unlike forms.

    The bound of one row is loose, so that it matters by what rows are drawn.
    """
    rng = np.random.default_rng(0)
    chain = random_chain(rng, order=1, family=logistic, beta=0.6, components=2, outside=1)
    bounds = chain.bounds * np.where(np.arange(chain.bounds.size) == 3, 2.0, 1.0)
    return reading_always(replace(chain, bounds=bounds), heavy)


# 72 chains: order of the control variates, rows, β, components, states that need all rows.
DESIGN = list(product((0, 1, 2), (logistic, student), (1.0, 0.4, 1.6), (1, 2), (0, 1)))

RULES = {
    "best": poisson.poisson_test("best", 0.7),
    "best, small chi": poisson.poisson_test("best", 0.05),
    "best, large chi": poisson.poisson_test("best", 2.0),
    "best, too many rows": poisson.poisson_test("best", 0.7, max_rate=1.5),
    "best, delayed": poisson.poisson_test("best", 0.7, delayed_acceptance=True),
    "paper": poisson.poisson_test("paper", 0.7),
    "paper, chi=0": poisson.poisson_test("paper", 0.0),
    "paper, delayed": poisson.poisson_test("paper", 0.7, delayed_acceptance=True),
    "MH-SS": poisson.poisson_test("best", 0.0),
    "MH-SS, delayed": poisson.poisson_test("best", 0.0, delayed_acceptance=True),
    "factorized": poisson.poisson_test("factorized"),
    "factorized, delayed": poisson.poisson_test("factorized", delayed_acceptance=True),
}


@cache
def chains():
    rng = np.random.default_rng(20240731)
    names = ("order", "family", "beta", "components", "outside")
    return [random_chain(rng, **dict(zip(names, case, strict=True))) for case in DESIGN]


@cache
def matrices(name):
    return [transition_matrix(chain, Rule(RULES[name])) for chain in chains()]
