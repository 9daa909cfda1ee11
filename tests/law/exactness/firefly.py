"""Transition matrices of Firefly Monte Carlo on positions and brightnesses, and its compiled loop.

The functions that are enumerated are the shipped `log_odds`, `chance_to_be_bright` and
`log_ratio_of_bright`, and the shipped choice of a table. A state of the chain is a position on a
line, and which rows are bright, the bits of a number; or that this has yet to be drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pymc as pm

from bounds.certified import evaluate
from helpers.published import ANEW, BRIGHT, DARK, chance_to_be_bright, log_odds, log_ratio_of_bright
from law.exactness.compiled import posterior_of
from law.exactness.enumeration import Tempered
from law.exactness.toys import jump, rows_of
from native.chain import Loop, line
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.bound_tables import BoundTables, table_of_move
from pymc_minibatch_mh.native.moves import CONSTANT, SHARP
from pymc_minibatch_mh.native.posterior import Posterior
from pymc_minibatch_mh.native.statistics import COUNTS
from pymc_minibatch_mh.published import firefly
from pymc_minibatch_mh.published.lower_bounds import gap_at_centre
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

#: The centre of the expansion, which is no state.
CENTRE = np.zeros(1)


@dataclass(frozen=True)
class Chain(Tempered):
    """Positions on a line, rows, and a mixture of proposals.

    Shapes: positions and log_prior (S,), log_likelihood and expansion (S, N), remainder_at_centre
    (N,), weights (K,), proposals (K, S, S), radii (T,), bounds (T, N).
    """

    positions: np.ndarray
    log_prior: np.ndarray
    log_likelihood: np.ndarray
    expansion: np.ndarray
    remainder_at_centre: np.ndarray
    inverse_temperature: float
    weights: np.ndarray
    proposals: np.ndarray
    radii: np.ndarray
    bounds: np.ndarray
    #: How M follows from a move.
    measure: int = SHARP

    @property
    def n_rows(self):
        return self.log_likelihood.shape[1]

    def tables(self):
        """Return the bounds as kernels read them."""
        c = self.bounds.astype(np.float32)
        headers = [
            [r, self.measure, row.sum(dtype=np.float64)]
            for r, row in zip(self.radii, c, strict=True)
        ]
        unused = np.empty((len(c), 0))
        return BoundTables(np.array(headers), c, unused, unused.astype(np.int32))


def random_chain(rng, *, beta, components, outside):
    """Return a chain of heavy-tailed rows, expanded to first order about the centre.

    Of the states, the first two lie in the smaller of two regions, and the last `outside` ones in
    neither. A row at a time, the bound of a state is attained up to a factor.
    """
    states, rows = 4 + outside, 3
    sides = rng.choice([-1.0, 1.0], states)
    lengths = np.concatenate(
        [rng.uniform(0.3, 0.9, 2), rng.uniform(1.1, 1.9, 2), np.full(outside, 3.0)]
    )
    positions = np.sort(sides * (lengths + 0.01 * np.arange(states)))
    slope, shift = (
        rng.choice([-1.0, 1.0], rows) * rng.uniform(0.6, 1.4, rows),
        rng.normal(size=rows),
    )

    def likelihood(x):
        return -2.0 * np.log1p((np.multiply.outer(x, slope) - shift) ** 2)

    derivative = (likelihood(1e-4) - likelihood(-1e-4)) / 2e-4
    value, expansion = likelihood(positions), np.outer(positions, derivative)
    change = beta * np.abs(value - expansion - likelihood(0.0))
    radii, bounds = np.array([1.0, 2.5]), []
    for radius in radii:
        inside = np.abs(positions) <= radius
        needed = (change[inside] / np.abs(positions[inside])[:, None]).max(axis=0)
        bounds.append(needed * rng.uniform(1.01, 1.6, rows))
    proposals = rng.uniform(0.2, 1.0, size=(components, states, states))
    return Chain(
        positions=positions,
        # A prior that makes up for the likelihood: otherwise one state holds all mass.
        log_prior=0.5 * rng.normal(size=states) - 0.8 * beta * value.sum(axis=1),
        log_likelihood=value,
        expansion=expansion,
        remainder_at_centre=likelihood(0.0),
        inverse_temperature=beta,
        weights=rng.dirichlet(np.ones(components)),
        proposals=proposals / proposals.sum(axis=2, keepdims=True),
        radii=radii,
        bounds=np.stack(bounds),
    )


def declare_logistic(x, slope, rng):
    """Declare three rows of a logistic regression."""
    pm.Bernoulli("y", logit_p=x * slope, observed=rng.integers(0, 2, x.size))


def declare_student(x, slope, rng):
    """Declare three rows with errors from Student's t."""
    pm.StudentT("y", nu=4.0, mu=x * slope, sigma=0.8, observed=rng.normal(size=x.size))


def quadratic_chain(rng, declare, *, beta):
    """Return a chain of rows that are bounded by quadratics which touch them in the centre."""
    x, middle = rng.choice([-1.0, 1.0], 3) * rng.uniform(0.6, 1.4, 3), rng.normal()
    with pm.Model() as model:
        declare(x, pm.Flat("slope"), rng)
    (function,) = row_functions(factorize(model, model.value_vars, observed=["y"]))
    gap = gap_at_centre(function, middle * x[:, None])
    positions = np.sort(rng.choice([-1.0, 1.0], 4) * rng.uniform(0.3, 2.5, 4))
    points = np.append(positions, CENTRE)
    u = [np.multiply.outer(middle + points, x)]
    value = evaluate(function, RowData(function, np.arange(3)), u)[0]
    above = evaluate(gap, RowData(gap, np.arange(3)), u)[0]
    proposals = rng.uniform(0.2, 1.0, size=(1, 4, 4))
    return Chain(
        positions=positions,
        log_prior=0.5 * rng.normal(size=4) - 0.8 * beta * value[:-1].sum(axis=1),
        log_likelihood=value[:-1],
        expansion=value[:-1] - above[:-1] - (value[-1] - above[-1]),
        remainder_at_centre=value[-1],
        inverse_temperature=beta,
        weights=np.ones(1),
        proposals=proposals / proposals.sum(axis=2, keepdims=True),
        radii=np.array([np.inf]),
        bounds=beta * (above[-1:] + 1e-9),
        measure=CONSTANT,
    )


def place(chain, state, other):
    """Return the table that serves a state, below 0 for none, and its M."""
    end = chain.positions[state : state + 1]
    return table_of_move(chain.tables(), line(chain.inverse_temperature), CENTRE, end)


def excess(chain, state, table, m):
    """Return log(L_i/B_i) of all rows."""
    remainder = chain.log_likelihood[state] - chain.expansion[state] - chain.remainder_at_centre
    c = chain.bounds[table].astype(np.float32).astype(np.float64)
    return chain.inverse_temperature * remainder + c * m


def law_of_brightness(rule, odds, before):
    """Return the law of which rows are bright after their update, shape (2^N,)."""
    law, q = np.ones(1), rule.q
    for row, own in enumerate(odds):
        if before is None:
            bright = rule.chance(own, q, ANEW)
        elif before >> row & 1:
            bright = rule.chance(own, q, BRIGHT)
        else:
            bright = q * rule.chance(own, q, DARK)
        law = np.concatenate([law * (1.0 - bright), law * bright])
    return law


@dataclass(frozen=True)
class Rule:
    """The shipped functions and the loop around them; a mutant replaces one of them."""

    q: float
    chance: Callable = chance_to_be_bright
    log_ratio: Callable = log_ratio_of_bright
    place: Callable = place
    excess: Callable = excess
    law: Callable = law_of_brightness


def cheap_part(chain, i, j, k):
    """Return λ_c of a proposal."""
    cheap = chain.log_prior + chain.inverse_temperature * chain.expansion.sum(axis=1)
    return cheap[j] - cheap[i] + np.log(chain.proposals[k, j, i] / chain.proposals[k, i, j])


def _both_ends(chain, rule, i, j):
    """Return C m and the log odds of all rows at both ends; None where all rows decide."""
    ends = []
    for state, other in ((i, j), (j, i)):
        table, m = rule.place(chain, state, other)
        if table < 0:
            return None
        odds = [log_odds(x) for x in rule.excess(chain, state, table, m)]
        ends.append((chain.tables().headers[table, 2] * m, np.array(odds)))
    return ends


def transition_matrix(chain, rule):
    """Return the transition matrix, shape (S (2^N + 1),) * 2: brightness varies fastest."""
    states, sets = len(chain.positions), 2**chain.n_rows
    matrix = np.zeros((states, sets + 1, states, sets + 1))
    bits = np.arange(sets)[:, None] >> np.arange(chain.n_rows) & 1
    for i in range(states):
        for j in range(states):
            ends = _both_ends(chain, rule, i, j)
            for k, weight in enumerate(chain.weights):
                drawn = weight * chain.proposals[k, i, j]
                cheap = cheap_part(chain, i, j, k)
                if ends is None:
                    _by_all_rows(matrix, chain, (i, j), drawn, cheap)
                    continue
                (size, odds), (new_size, new_odds) = ends
                for before in range(sets + 1):
                    law = rule.law(rule, odds, before if before < sets else None)
                    for after in np.flatnonzero(law):
                        own = bits[after] == 1
                        sums = odds[own].sum(), new_odds[own].sum()
                        ratio = rule.log_ratio(cheap, (size, new_size), sums)
                        accepted = np.exp(min(0.0, ratio))
                        matrix[i, before, j, after] += drawn * law[after] * accepted
                        matrix[i, before, i, after] += drawn * law[after] * (1.0 - accepted)
    return matrix.reshape((states * (sets + 1),) * 2)


def _by_all_rows(matrix, chain, pair, drawn, cheap):
    i, j = pair
    remainder = (chain.log_likelihood - chain.expansion).sum(axis=1)
    ratio = cheap + chain.inverse_temperature * (remainder[j] - remainder[i])
    accepted = np.exp(min(0.0, ratio))
    unknown = matrix.shape[1] - 1
    for before in range(unknown + 1):
        matrix[i, before, j, unknown] += drawn * accepted
        matrix[i, before, i, before] += drawn * (1.0 - accepted)


def law_given_positions(chain):
    """Return the law of brightness at every state inside, shape (S, 2^N); NaN outside."""
    laws = []
    for state in range(len(chain.positions)):
        table, m = place(chain, state, state)
        if table < 0:
            laws.append(np.full(2**chain.n_rows, np.nan))
            continue
        law = np.ones(1)
        # By the density itself: B_i/L_i and 1 - B_i/L_i.
        for dark in np.exp(-excess(chain, state, table, m)):
            law = np.concatenate([law * dark, law * (1.0 - dark)])
        laws.append(law)
    return np.array(laws)


@dataclass(frozen=True)
class Compiled:
    """A chain and a test, for the loop."""

    chain: Chain
    posterior: Posterior
    test: firefly.FireflyTest

    def transitions(self, updates, seed):
        """Return how often each state was followed by each, shape (S (2^N + 1),) * 2."""
        return self.run(updates, seed)[0]

    def run(self, updates, seed):
        """Return the same, and what each update counted; brightness is that of the test."""
        chain, sets = self.chain, 2**self.chain.n_rows
        proposal = jump(chain.positions, chain.proposals, chain.weights)
        loop = Loop(self.posterior, proposal, self.test, chain.positions[0], seed)
        found = np.zeros(((sets + 1) * len(chain.positions),) * 2)
        draws, counts = np.empty((1, 1)), np.zeros(updates, COUNTS)
        before = self._state(loop.move.position)
        for k in range(updates):
            assert loop(1, draws, counts[k : k + 1]) == 1
            after = self._state(loop.move.position)
            found[before, after] += 1.0
            before = after
        return found, counts

    def _state(self, position):
        own, sets = self.test.brightness, 2**self.chain.n_rows
        n_bright = int(own.n_bright[0])
        bright = sets if n_bright < 0 else int((1 << own.rows[:n_bright].astype(np.int64)).sum())
        return int(np.argmin(np.abs(self.chain.positions - position))) * (sets + 1) + bright


def compiled(chain, q):
    """Return a chain for the loop; its rows belong to two likelihoods."""
    beta = chain.inverse_temperature
    remainder = np.vstack([chain.log_likelihood - chain.expansion, chain.remainder_at_centre])
    cheap = np.append(chain.log_prior + beta * chain.expansion.sum(axis=1), np.nan)
    rows = rows_of(remainder, cheap, np.append(chain.positions, CENTRE), second=1)
    test = firefly.FireflyTest(firefly.unknown_brightness(q, chain.n_rows, 1), 0, 0)
    return Compiled(chain, posterior_of(rows, beta, chain.tables()), test)


def scaled(chain, factor):
    """Return a chain with other bounds."""
    return replace(chain, bounds=factor * chain.bounds)
