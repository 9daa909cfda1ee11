"""Ceilings and candidates of rows whose look-ups are set by hand, against their formulas."""

import numpy as np
import pytest
from numba import njit

from pymc_minibatch_mh.kernels import parts as kernels
from pymc_minibatch_mh.kernels.draw import build_alias, generator_addresses, generator_at
from pymc_minibatch_mh.kernels.parts import Ends, Parts

#: Elements that each row reads of factors with 3 and 2 elements; -1 for none.
ELEMENTS = np.array([[0, 3], [1, 3], [1, 4], [2, 4], [2, -1], [0, 4]], dtype=np.int32)
N, F, L = len(ELEMENTS), 2, 5
RNG = np.random.default_rng(20_261_126)


def made(signed):
    cubes = RNG.uniform(0.1, 1.0, N).astype(np.float32)
    weights = RNG.normal(size=(N, F)) * (ELEMENTS >= 0)
    rows = [np.flatnonzero((g == ELEMENTS).any(axis=1)) for g in range(L)]
    starts = np.cumsum([0, *map(len, rows)])
    factor = np.repeat(np.arange(F), [3, 2])
    running = np.concatenate(
        [np.cumsum(np.abs(weights[own, factor[g]]) ** 3) for g, own in enumerate(rows)]
    )
    thresholds, aliases = np.empty(N), np.empty(N, np.int32)
    build_alias(cubes, thresholds, aliases)
    border = np.cbrt(cubes.astype(float))
    first, total = np.array([0, 3, 5]), float(cubes.sum(dtype=float))
    return Parts(
        border, weights, int(signed), ELEMENTS, first, starts, np.concatenate(rows), running,
        total, thresholds, aliases, 5.0, np.full(L, 2.0),
    )  # fmt: skip


ENDS = Ends(RNG.uniform(-1.5, 1.5, L), RNG.uniform(-1.5, 1.5, L), (0.7, 1.2, 0.9))


def own_parts(parts, e):
    """Return the parts of every row that are not the border's, shape (rows, factors)."""
    return parts.weights * np.where(ELEMENTS >= 0, e[ELEMENTS], 0.0)


def size(parts, signed, e):
    own = own_parts(parts, e)
    return np.abs(own.sum(axis=1)) if signed else np.abs(own).sum(axis=1)


@pytest.mark.parametrize("signed", [True, False])
def test_ceilings_are_those_of_the_formula(signed):
    parts, found = made(signed), np.empty(N)
    kernels.ceilings_of(parts, ENDS, found)
    x = parts.border * ENDS.border[0] + size(parts, signed, ENDS.here)
    y = parts.border * ENDS.border[1] + size(parts, signed, ENDS.there)
    way = parts.border * ENDS.border[2] + size(parts, signed, ENDS.there - ENDS.here)
    expected = np.minimum((x**3 + y**3) / 6.0, 0.5 * way * np.maximum(x, y) ** 2)
    assert np.allclose(found, expected, rtol=1e-9)
    assert (found > expected).all()


@njit
def _kept(parts, ends, shares, limit, out):
    for row in range(len(out)):
        out[row] = kernels.share_of_candidates(parts, ends, shares, limit, row)


@njit
def _drawn(parts, shares, running, addresses, out):
    rng = generator_at(addresses[0], addresses[1], addresses[2], addresses[3])
    for k in range(out.size):
        out[k] = kernels.draw_candidate(parts, shares, running, rng)


def summed(parts, ends):
    shares, running, outside = np.empty(1 + F), np.empty(L), np.empty(L + 1, np.int64)
    limit = kernels.sum_parts(parts, ends, shares, running, outside)
    return shares, running, outside, limit


def test_rates_add_up_and_lie_above_all_ceilings():
    parts = made(signed=False)
    shares, _, _, limit = summed(parts, ENDS)
    cubes = [np.abs(own_parts(parts, e)) ** 3 for e in (ENDS.here, ENDS.there)]
    border = parts.border**3 * (ENDS.border[0] ** 3 + ENDS.border[1] ** 3)
    expected = np.append(border.sum(), sum(cubes).sum(axis=0))
    assert np.allclose(shares, expected, rtol=1e-6)
    assert limit == pytest.approx((expected ** (1.0 / 3.0)).sum() ** 3 / 6.0, rel=1e-6)
    kept = np.empty((N, 2))
    _kept(parts, ENDS, shares, limit, kept)
    assert (kept[:, 0] <= 1.0).all()
    rates = kept[:, 1] / kept[:, 0]
    assert rates.sum() == pytest.approx(limit, rel=1e-6)


def test_rows_come_as_often_as_their_rates_say():
    parts, drawn = made(signed=False), np.empty(200_000, np.int64)
    shares, running, _, limit = summed(parts, ENDS)
    rng = np.random.default_rng(1)
    _drawn(parts, shares, running, generator_addresses(rng), drawn)
    kept = np.empty((N, 2))
    _kept(parts, ENDS, shares, limit, kept)
    expected = drawn.size * kept[:, 1] / kept[:, 0] / limit
    counts = np.bincount(drawn, minlength=N)
    assert (np.abs(counts - expected) < 5.0 * np.sqrt(expected)).all()


@pytest.mark.parametrize("end", ["here", "there"])
def test_an_element_beyond_its_radius_has_no_share(end):
    parts = made(signed=False)
    ends = Ends(ENDS.here.copy(), ENDS.there.copy(), ENDS.border)
    getattr(ends, end)[1] = -2.1
    shares, running, outside, _ = summed(parts, ends)
    assert outside[:2].tolist() == [1, 1]
    assert running[1] == running[0]
    left = [np.abs(own_parts(parts, e)) ** 3 * (ELEMENTS != 1) for e in (ends.here, ends.there)]
    assert np.allclose(shares[1:], sum(left).sum(axis=0))
    assert [kernels.first_outside(parts, ends, k) for k in range(N)] == [-1, 1, 1, -1, -1, -1]
