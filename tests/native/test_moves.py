from math import factorial

import numpy as np
import pytest

from helpers.in_library import ULPS, move_between, products, ratio_to_bound, size_of_move
from pymc_minibatch_mh.native import moves
from pymc_minibatch_mh.native.bound_tables import no_tables, sizes_between
from pymc_minibatch_mh.native.library import load_library
from pymc_minibatch_mh.native.moves import DIRECTIONAL, JOINT, SHARP
from pymc_minibatch_mh.native.posterior import Reference

MOVES = 5_000
ROUNDS = 9
KINDS = [(order, kind) for order in (0, 1, 2) for kind in (SHARP, JOINT, DIRECTIONAL)]
#: At order 3 rows have one argument.
ONE_ARGUMENT = [*KINDS, (3, SHARP), (3, JOINT)]
every_kind = pytest.mark.parametrize(("order", "kind"), KINDS)


def size_between(reference, here, there, order, kind):
    return size_of_move(products(move_between(reference, here, there)), order, kind)


def around(centre, whitener):
    """Return control variates, of which moves need no more than centre and whitener."""
    return Reference(
        centre, np.linalg.inv(whitener), whitener, 0.0 * centre, 0.0 * whitener, 0, 1.0
    )


def sizes(a, b, order, kind):
    d = a.shape[1]
    whole = no_tables()._replace(headers=np.array([[np.inf, kind, 1.0]]))
    reference = around(np.zeros(d), np.eye(d))._replace(order=order)
    return sizes_between(whole, reference, np.stack([a, b], axis=1))


def most_one_argument_can_change(p, q, order):
    """Return sup |r(q) - r(p)| over all functions of one argument with |f^(order + 1)| <= 1.

    The change is an integral of that derivative with a kernel whose sign is known, so that the
    worst derivative is ±1: one sign on each side of the centre.
    """
    if order == 0:
        return np.abs(q - p)
    if order == 1:
        return 0.5 * np.where(p * q > 0.0, np.abs(q * q - p * p), q * q + p * p)
    if order == 3:
        return np.abs(q * np.abs(q) ** 3 - p * np.abs(p) ** 3) / 24.0
    return np.abs(q**3 - p**3) / 6.0


def unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-300)


def pairs_of_positions(rng, d, n=MOVES):
    """Return pairs: any, opposite, collinear, near each other, equal, one at the centre."""
    a, b = (rng.standard_normal((n, d)) for _ in range(2))
    scale = 10.0 ** rng.uniform(-2.0, 1.0, (n, 1))
    tiny = 10.0 ** rng.uniform(-9.0, 0.0, (n, 1))
    kind = rng.integers(0, 8, (n, 1))
    others = [b, scale * b, -a, scale * a, -scale * a, a + tiny * b, 0.0 * a, a.copy()]
    size = np.where(rng.random((n, 1)) < 0.1, 1e6, 1.0)
    return size * a, size * np.choose(kind, others)


class OneArgument:
    """Rows of one argument: the largest change over the directions of the argument."""

    def __init__(self, rng, d, order):
        self.rng, self.order = rng, order
        self.state = unit(rng.standard_normal((MOVES, d)))

    def changed(self, step):
        return unit(self.state + step * self.rng.standard_normal(self.state.shape))

    def change(self, a, b, x):
        p, q = ((x * z).sum(axis=1) for z in (a, b))
        return most_one_argument_can_change(p, q, self.order)

    def weights(self, x, joint):
        return 1.0


class ManyArguments(OneArgument):
    """Rows of several arguments: sums of powers of them, with the bounds c that they have.

    f(u) = Σ_j w_j (l_j·u)^(k + 1)/(k + 1)! has the derivatives Σ_j w_j l_ja l_jb l_jc.
    """

    def __init__(self, rng, d, order, m=2):
        self.rng, self.order, self.m, self.d = rng, order, m, d
        self.state = rng.standard_normal((MOVES, m * d + 3 * m + 3))

    def changed(self, step):
        return self.state + step * self.rng.standard_normal(self.state.shape)

    def parts(self, x):
        n, m, d = len(x), self.m, self.d
        rows = unit(x[:, : m * d].reshape(n, m, d))
        forms = unit(x[:, m * d : m * d + 3 * m].reshape(n, 3, m))
        return rows, forms, unit(x[:, -3:])

    def change(self, a, b, x):
        rows, forms, w = self.parts(x)
        p, q = (np.einsum("njm,nmd,nd->nj", forms, rows, z) for z in (a, b))
        power = self.order + 1
        return np.abs((w * (q**power - p**power)).sum(axis=1)) / [1.0, 2.0, 6.0][self.order]

    def weights(self, x, joint):
        rows, forms, w = self.parts(x)
        power = self.order + 1
        letters = "abc"[:power]
        factors = ",".join("nj" + letter for letter in letters)
        tensor = np.einsum(f"nj,{factors}->n{letters}", w, *[forms] * power)
        tensor = np.abs(tensor).reshape(len(x), -1)
        if not joint:
            return tensor.sum(axis=1)
        correlation = np.linalg.eigvalsh(rows @ rows.transpose(0, 2, 1))[:, -1]
        angles = np.linspace(0.0, 0.5 * np.pi, 61)
        s = np.stack([np.cos(angles), np.sin(angles)])
        powers = s
        for _ in range(self.order):
            powers = (powers[:, None] * s).reshape(-1, len(angles))
        # What the largest value on a grid can miss.
        return 1.001 * (tensor @ powers).max(axis=1) * correlation ** (0.5 * power)


def climb(family, seed, d, order, kind):
    """Return the largest ratio of change to bound, climbing from random moves and rows."""
    rng = np.random.default_rng(seed)
    a, b = pairs_of_positions(rng, d)
    rows = family(rng, d, order)
    best = np.full(MOVES, -1.0)
    for k in range(ROUNDS):
        step = 0.0 if k == 0 else 0.5**k
        x, y, row = a, b, rows.state
        if k > 0:
            scale = step * (rng.random((MOVES, 1)) < 0.5)
            x, y = (z * (1.0 + scale * rng.standard_normal((MOVES, 1))) for z in (a, b))
            spread = scale * np.linalg.norm(b - a, axis=1, keepdims=True)
            y = y + spread * rng.standard_normal(b.shape)
            row = rows.changed(step)
        bound = rows.weights(row, kind == JOINT) * sizes(x, y, order, kind)
        change = np.maximum(rows.change(x, y, row) - rounding(x, y, order), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(change > 0.0, change / bound, 0.0)
        better = ratio > best
        best = np.where(better, ratio, best)
        a, b, rows.state = (
            np.where(better[:, None], new, old) for new, old in ((x, a), (y, b), (row, rows.state))
        )
    return best.max()


def rounding(a, b, order):
    """Return by how much a change in these positions may be off as computed here."""
    return 1e-15 * (np.abs(a).sum(axis=1) + np.abs(b).sum(axis=1)) ** (order + 1)


@pytest.mark.parametrize(("order", "kind"), ONE_ARGUMENT)
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_no_row_of_one_argument_changes_by_more(order, kind, d):
    assert climb(OneArgument, d, d, order, kind) <= 1.0


@pytest.mark.parametrize(("order", "kind"), [case for case in KINDS if case != (2, SHARP)])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_no_row_of_two_arguments_changes_by_more(order, kind, d):
    assert climb(ManyArguments, 10 + d, d, order, kind) <= 1.0


@pytest.mark.parametrize(("order", "kind"), ONE_ARGUMENT)
def test_sizes_are_symmetric_bit_by_bit(order, kind):
    rng = np.random.default_rng(30)
    for d in (1, 3, 6):
        whitener = np.tril(rng.standard_normal((d, d)))
        centre = rng.standard_normal(d)
        reference = around(centre, whitener)
        for a, b in zip(*pairs_of_positions(rng, d, 500), strict=True):
            here, there = centre + a, centre + b
            forth = size_between(reference, here, there, order, kind)
            back = size_between(reference, there, here, order, kind)
            assert forth == back


def worst_of_one_argument(a, b, order):
    """Return the largest change over directions in the plane of a move, where the worst lies."""
    step = b - a
    first = unit(step)
    second = unit(a - (a * first).sum(axis=1, keepdims=True) * first)
    largest = np.zeros(len(a))
    for angle in np.linspace(0.0, np.pi, 400):
        x = unit(np.cos(angle) * first + np.sin(angle) * second)
        p, q = ((x * z).sum(axis=1) for z in (a, b))
        largest = np.maximum(largest, most_one_argument_can_change(p, q, order))
    return largest


def test_one_argument_is_bounded_as_well_as_can_be():
    a, b = pairs_of_positions(np.random.default_rng(40), 4, 4_000)
    moving = np.linalg.norm(b - a, axis=1) > 1e-4 * np.linalg.norm(a, axis=1)
    a, b = a[moving], b[moving]
    for order, nearness in enumerate((0.999, 0.999, 0.97)):
        ratios = worst_of_one_argument(a, b, order) / sizes(a, b, order, SHARP)
        assert nearness < ratios.min() <= ratios.max() <= 1.0


@pytest.mark.parametrize(("order", "kind"), [(3, SHARP), (2, SHARP), (2, JOINT), (1, SHARP)])
def test_short_steps_are_bounded_relative_to_their_length(order, kind):
    rng = np.random.default_rng(41)
    a, direction = rng.standard_normal((2, 500, 3))
    unwhitened = around(np.zeros(3), np.eye(3))
    for length in 10.0 ** np.arange(-15.0, 0.0):
        size = np.array([
            size_between(unwhitened, x, x + length * y, order, kind)
            for x, y in zip(a, direction, strict=True)
        ])  # fmt: skip
        # The change of the argument along a, to first order in what is left of the step.
        moved = (a + length * direction) - a
        slope = np.linalg.norm(a, axis=1) ** order * np.abs((unit(a) * moved).sum(axis=1))
        slope /= factorial(order)
        assert (slope <= size * (1.0 + 50.0 * length)).all()


def test_the_sharper_factor_of_directions_does_not_hold_for_joint_lengths():
    # f(u) = u_1² u_2 / 2, moved along the second of two orthogonal arguments.
    a, b = np.array([[1.0, 0.0]]), np.array([[1.0, 0.1]])
    change, joint = 0.05, 2.0 / 3.0**0.5
    assert change <= 3.0 * sizes(a, b, 2, DIRECTIONAL)
    assert change <= joint * sizes(a, b, 2, JOINT)
    # f(u) = u_1 u_2: its second derivatives have the joint bound 1.
    assert sizes(a, b, 1, SHARP) < 0.1 <= sizes(a, b, 1, JOINT)


@pytest.mark.parametrize(("difference", "bound"), [(np.nan, 1.0), (np.nan, 0.0), (0.1, 0.0)])
def test_a_change_without_a_bound_exceeds_every_bound(difference, bound):
    assert ratio_to_bound(difference, 1.0, bound, 1.0) == np.inf


@pytest.mark.parametrize("difference", [np.nan, np.inf, 0.1])
def test_no_change_exceeds_an_infinite_bound(difference):
    assert ratio_to_bound(difference, 1.0, np.inf, 1.0) == 0.0


def test_rounding_errors_are_taken_off_before_a_change_is_held_against_its_bound():
    assert ratio_to_bound(1.0 + ULPS * 8.0, 8.0, 0.5, 1.0) == pytest.approx(2.0, abs=1e-15)
    assert ratio_to_bound(-ULPS * 8.0, 8.0, 0.0, 1.0) == 0.0
    assert ratio_to_bound(3.0, 0.0, 2.0, 0.5) == 0.75


def test_kinds_of_tables_are_those_of_the_library():
    names = ["DIRECTIONAL", "JOINT", "SHARP", "GIVEN", "CONSTANT"]
    assert [getattr(moves, name) for name in names] == [
        getattr(load_library(), f"MH_{n}") for n in names
    ]
