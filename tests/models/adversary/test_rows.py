"""Rows of random models are those of PyMC, and have no density where PyMC's have none."""

from itertools import count

import mpmath as mp
import numpy as np
import pytest

from helpers.tiers import fast
from models.adversary.expressions import random_expression
from models.adversary.likelihoods import LIKELIHOODS, random_likelihood
from models.adversary.subject import Formed, Subject
from pymc_minibatch_mh.compiled.graphs import GraphRows
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import LoweringError
from pymc_minibatch_mh.native.row_sums import differences_of
from structure.exact import DIGITS, ExactRow

KINDS = len(LIKELIHOODS)
MORE = 8
SLOW = range(KINDS, MORE * KINDS)
#: Seeds of different likelihoods in the fast tests, and of others in the slow ones.
LINKED, BARE = (fast([*some, *SLOW], some) for some in (range(1, KINDS, 18), range(2, KINDS, 18)))
#: In the last of the fast tests, an exponent moves by a step of which rounding leaves nothing.
GROWN = fast(range(60 * MORE), (0, 212))
#: Logarithm of the smallest probability that is a number.
UNDERFLOW = np.log(5e-324)
#: In PyMC's own density of a mixture, a component whose parameters are outside their domain in
#: one row drops out of all rows: what is left there is no sum over rows.
MIXTURES = {
    "zeroinflatedpoisson", "zeroinflatednegativebinomial", "hurdlepoisson", "hurdle_gamma",
    "mixture_of_rows", "normal_mixture",
}  # fmt: skip


def positions(subject, seed, scales):
    rng = np.random.default_rng([seed, 9])
    return [scale * rng.normal(size=subject.parts.size) for scale in scales]


def formed(subject):
    """Return the compiled row function, None where there is none by design."""
    try:
        return Formed(subject)
    except (BoundsError, LoweringError):
        return None


def assert_rows_are_those_of_pymc(subject, seed):
    """Compare rows and the whole wherever PyMC's density is finite."""
    form, all_rows, before = formed(subject), np.arange(subject.term.n_rows), None
    for position in positions(subject, seed, (0.0, 0.3, 0.3, 1.0, 1.0, 3.0)):
        expected = subject.rows(position)
        if not np.isfinite(expected).all():
            continue
        values, prior = subject.batch(position, all_rows)
        np.testing.assert_allclose(values, expected, rtol=1e-8, atol=1e-8)
        some = np.random.default_rng(seed).integers(all_rows.size, size=3)
        chosen, _ = subject.batch(position, some)
        np.testing.assert_allclose(chosen, expected[some], rtol=1e-8, atol=1e-8)
        size = abs(prior) + np.abs(expected).sum()
        assert abs(prior + values.sum() - subject.density(position)) <= 1e-8 * (1.0 + size)
        if form is not None:
            assert_agree_up_to_rounding(form, subject, position)
            if before is not None:
                change, doubt = form.changes(before, position)
                gap = np.abs(change - (expected - subject.rows(before)))
                allowed = np.fmax(doubt, 0.0) + 1e-8 * (1.0 + np.abs(expected))
                for i in np.flatnonzero(~(gap <= allowed)):
                    lost = subject.rounding(before, i) + subject.rounding(position, i)
                    assert gap[i] <= allowed[i] + lost or lost == np.inf
            before = position


def assert_agree_up_to_rounding(form, subject, position):
    """Compare rows, of which either side may lose digits to cancellation that the other keeps."""
    values, expected = form.values(position), subject.rows(position)
    apart = np.flatnonzero(~np.isclose(values, expected, rtol=1e-7, atol=1e-7))
    if apart.size == 0:
        return
    _, doubt = form.changes(np.zeros(position.size), position)
    for i in apart:
        lost = subject.rounding(position, i)
        assert abs(values[i] - expected[i]) <= doubt[i] + lost
        with mp.workdps(DIGITS):
            exact = ExactRow(form.function, i)(*map(mp.mpf, form.arguments(position)[i]))
        # Where PyMC loses all digits, only these fifty say what is right.
        allowed = doubt[i] + (lost if lost < np.inf else 0.0) + 1e-7 * (1.0 + abs(exact))
        assert abs(values[i] - float(exact)) <= allowed


def assert_nothing_outside_the_domain_has_density(subject, seed):
    """Compare where PyMC's density is not finite."""
    form, inside = formed(subject), None
    for position in positions(subject, seed, (0.3, 0.3, 0.3, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0)):
        # One row at a time: PyMC takes all rows away where one is outside.
        alone = [subject.batch(position, np.array([i]))[0] for i in range(subject.term.n_rows)]
        expected = np.isfinite(np.concatenate(alone))
        whole = np.isfinite(subject.rows(position)).all()
        assert whole == expected.all()
        if form is None:
            continue
        values = form.values(position)
        # Where a probability that PyMC computes is no number any more, its logarithm may be one.
        outside = ~expected & ~(values < UNDERFLOW)
        assert not (np.isfinite(values) & outside).any()
        if inside is not None:
            change, _ = form.changes(inside, position, order=seed % 3, centre=inside)
            assert not (np.isfinite(change) & outside).any()
        if whole:
            inside = position


@pytest.mark.parametrize("seed", LINKED)
def test_rows_of_a_likelihood_are_those_of_pymc(seed):
    _, model = random_likelihood(seed)
    assert_rows_are_those_of_pymc(Subject(model), seed)


@pytest.mark.parametrize("seed", GROWN)
def test_rows_of_an_expression_are_those_of_pymc(seed):
    assert_rows_are_those_of_pymc(Subject(random_expression(seed)), seed)


@pytest.mark.parametrize("seed", BARE)
def test_nothing_outside_the_domain_of_a_likelihood_has_density(seed):
    name, model = random_likelihood(seed, bare=True)
    if name not in MIXTURES:
        assert_nothing_outside_the_domain_has_density(Subject(model), seed)


def changes_by(rows, source, here, there, order):
    """Return the changes of all rows around `here`, as updates compute them."""
    changes, scales = np.empty((2, source.n_rows))
    space, numbers = rows.at(source).space(order), np.arange(source.n_rows)
    differences_of(space, (here, there, here), numbers, changes, scales)
    return changes


def leaving(name):
    """Return a random model of a likelihood, with positions inside its domain and outside."""
    inside = outside = []
    seeds = count(list(LIKELIHOODS).index(name), KINDS)
    while len(inside) < 3 or not outside:
        seed = next(seeds)
        subject = Subject(random_likelihood(seed, bare=True)[1])
        tried = positions(subject, seed, (0.3,) * 8 + (1.0,) * 8)
        finite = [np.isfinite(subject.rows(p)).all() for p in tried]
        inside = [p for p, known in zip(tried, finite, strict=True) if known]
        outside = [p for p, known in zip(tried, finite, strict=True) if not known]
    return subject, inside, outside


LEFT = ["normal", "student", "gamma", "poisson", "binomial", "beta", "uniform", "ordered"]


@pytest.mark.parametrize(
    ("name", "orders"),
    fast([("bernoulli", (0,)), *((name, (0, 1, 2)) for name in LEFT)], [("bernoulli", (0,))]),
)
def test_rows_by_forms_and_as_graphs_leave_the_domain_together(name, orders):
    """In moves into and out of the domain."""
    subject, inside, outside = leaving(name)
    form = Formed(subject)
    graph = GraphRows(subject.parts, form.source)
    for order in orders:
        for there in [*inside[1:3], *outside[:4]]:
            moves = [
                changes_by(rows, form.source, inside[0], there, order)
                for rows in (form.compiled, graph)
            ]
            known = np.isfinite(moves[1])
            # The graph takes all rows of a batch away where one is outside.
            assert np.isfinite(moves[0]).all() == known.all()
            if known.all():
                np.testing.assert_allclose(*moves, rtol=1e-6, atol=1e-7)


def test_mutant_that_reads_the_rows_of_others_is_caught():
    seed = 0
    subject = Subject(random_likelihood(seed)[1])
    column, _ = subject.term.batches[0]
    object.__setattr__(column, "values", np.roll(column.values, 1))
    with pytest.raises(AssertionError):
        assert_rows_are_those_of_pymc(subject, seed)


def test_mutant_that_takes_every_number_for_a_probability_is_caught(monkeypatch):
    subject, _, _ = leaving("bernoulli")
    for known in ("is_probability", "is_nonnegative"):
        monkeypatch.setattr(f"pymc_minibatch_mh.expressions.rules.{known}", lambda _: True)
    with pytest.raises(AssertionError):
        assert_nothing_outside_the_domain_has_density(subject, 0)
