"""Bounds by parts: how much a row can change in a move, by what the row reads alone.

The position is the border w, which all rows may read, and the elements e of one or more factors,
of which a row reads one each. In units of D_i^(1/3), D_i a bound of its third derivatives, a row
departs from the centre by at most x_i = s_i ‖w‖ + |Σ_f z_if e_f|. With x' at the other end, and
δ_i = s_i ‖w' - w‖ + |Σ_f z_if (e_f' - e_f)|, its remainder of order 2 changes by at most

    φ̄_i = min{ (x_i³ + x_i'³)/6, δ_i max(x_i, x_i')²/2 },

its *ceiling*. Candidates are drawn at a rate that adds up over rows without looking at any: for
parts p, x_ip = s_i ‖w‖ or |z_if e_f|, and both ends,

    Σ_i (Σ_p x_ip)³ <= Λ³,   Λ = Σ_p P_p^(1/3),   P_p = Σ_i x_ip³,

by Minkowski's inequality. It is the rate of superposed Poisson processes, one for each part: row
i comes from part p at the rate x_ip³ Λ²/P_p^(2/3), over 6. Which rows come from the part of a
factor is known by sums over its elements, P_f = Σ_g C_g |e_g|³, and C_g = Σ z_i³ over the rows of
g. A candidate is kept with probability φ̄_i over its rate, by look-ups, before its data are read:
rows that are kept are independent Poisson counts with means κ φ̄_i, whatever the rate.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import draw_alias
from pymc_minibatch_mh.kernels.vectors import scratch

#: Far more than the rounding errors of a ceiling.
_ROUNDING = 1.0 + 1e-10


class Parts(NamedTuple):
    """Look-ups of all rows, N of them, with F factors that have L elements in all."""

    #: s_i, shape (N,), and z_if, with signs where all lie in one argument of the row: (N, F).
    border: np.ndarray
    weights: np.ndarray
    #: 1: the signs of weights mean something.
    signed: int
    #: The element of each factor that a row reads, numbered through all factors; -1 for none.
    elements: np.ndarray
    #: Where each factor's elements begin, shape (F + 1,), and the factor of each, shape (L,).
    first: np.ndarray
    #: Rows of each element: `rows[starts[g]:starts[g + 1]]`, and the running sums of their |z|³.
    starts: np.ndarray
    rows: np.ndarray
    running: np.ndarray
    #: Σ s_i³, and an alias table of s_i³.
    border_cubes: float
    thresholds: np.ndarray
    aliases: np.ndarray
    #: Radii up to which the ceilings hold: of ‖w‖, and of each |e|, shape (L,).
    border_radius: float
    radii: np.ndarray


class Ends(NamedTuple):
    """Both ends of a move: elements, shape (L,), and ‖w‖, ‖w'‖ and ‖w' - w‖."""

    here: np.ndarray
    there: np.ndarray
    border: tuple[float, float, float]


@compiled(inlined=True)
def ceiling(parts, ends, row):
    """Return φ̄_i of a row: symmetric in the two ends, to the last bit."""
    here, there, step = 0.0, 0.0, 0.0
    for f in range(parts.weights.shape[1]):
        g = parts.elements[row, f]
        if g < 0:
            continue
        z, one, other = parts.weights[row, f], ends.here[g], ends.there[g]
        if parts.signed:
            here += z * one
            there += z * other
            step += z * (other - one)
        else:
            here += abs(z * one)
            there += abs(z * other)
            step += abs(z * (other - one))
    s, border = parts.border[row], ends.border
    here, there = s * border[0] + abs(here), s * border[1] + abs(there)
    step, most = s * border[2] + abs(step), max(here, there)
    by_ends = (here * here * here + there * there * there) / 6.0
    return min(by_ends, 0.5 * step * most * most) * _ROUNDING


@compiled(inlined=True)
def first_outside(parts, ends, row):
    """Return the first element of a row that is beyond its radius at either end; -1 for none."""
    for f in range(parts.elements.shape[1]):
        g = parts.elements[row, f]
        if g >= 0 and not max(abs(ends.here[g]), abs(ends.there[g])) <= parts.radii[g]:
            return g
    return -1


@compiled()
def sum_parts(parts, ends, shares, running, outside):
    """Write P_p of both ends together: of the border, then of each factor; return Λ³/6.

    `running`, shape (L,), is overwritten by running sums of C_l (|e_l|³ + |e_l'|³) within each
    factor, and `outside` by the elements beyond their radii, of which the first entry is the
    number; these have no share.
    """
    border, count = ends.border, 0
    shares[0] = parts.border_cubes * (border[0] ** 3 + border[1] ** 3)
    total = shares[0] ** (1.0 / 3.0)
    for f in range(parts.first.size - 1):
        own = 0.0
        for g in range(parts.first[f], parts.first[f + 1]):
            one, other = abs(ends.here[g]), abs(ends.there[g])
            if not max(one, other) <= parts.radii[g]:
                count += 1
                outside[count] = g
            elif parts.starts[g + 1] > parts.starts[g]:
                cubes = one * one * one + other * other * other
                own += parts.running[parts.starts[g + 1] - 1] * cubes
            running[g] = own
        shares[1 + f] = own
        total += own ** (1.0 / 3.0)
    outside[0] = count
    return total * total * total / 6.0


@compiled(inlined=True)
def _first_above(sums, low, high, value):
    """Return the first place of `sums`, which ascend, from `low` to `high` whose sum is above."""
    while high - low > 1:
        middle = (low + high) // 2
        if sums[middle - 1] > value:
            high = middle
        else:
            low = middle
    return low


@compiled(inlined=True)
def draw_candidate(parts, shares, running, rng):
    """Return a row, drawn at the rate of its parts."""
    total = 0.0
    for p in range(shares.size):
        total += shares[p] ** (1.0 / 3.0)
    left, part = rng.random() * total, 0
    for p in range(shares.size):
        if shares[p] > 0.0:
            part = p
            left -= shares[p] ** (1.0 / 3.0)
            if left < 0.0:
                break
    if part == 0:
        row = scratch(1, np.int64)
        draw_alias(rng, parts.thresholds, parts.aliases, row, 1)
        return row[0]
    first, last = parts.first[part - 1], parts.first[part]
    g = _first_above(running, first, last, rng.random() * shares[part])
    start, stop = parts.starts[g], parts.starts[g + 1]
    k = _first_above(parts.running, start, stop, rng.random() * parts.running[stop - 1])
    return parts.rows[k]


@compiled(inlined=True)
def share_of_candidates(parts, ends, shares, limit, row):
    """Return φ̄_i over the rate at which a row is drawn, and φ̄_i; Λ³/6 is the `limit`."""
    border, s = ends.border, parts.border[row]
    # Λ²/P_p^(2/3) for each part.
    square, rate = (6.0 * limit) ** (2.0 / 3.0), 0.0
    if shares[0] > 0.0:
        cubes = s * s * s * (border[0] ** 3 + border[1] ** 3)
        rate += cubes / shares[0] ** (2.0 / 3.0)
    for f in range(parts.weights.shape[1]):
        g = parts.elements[row, f]
        if g >= 0 and shares[1 + f] > 0.0:
            z, one, other = abs(parts.weights[row, f]), abs(ends.here[g]), abs(ends.there[g])
            cubes = z * z * z * (one * one * one + other * other * other)
            rate += cubes / shares[1 + f] ** (2.0 / 3.0)
    own = ceiling(parts, ends, row)
    rate *= square / 6.0
    return (own / rate if rate > 0.0 else 0.0), own


@compiled()
def ceilings_of(parts, ends, out):
    """Write the ceiling of every row in a move."""
    for row in range(out.size):
        out[row] = ceiling(parts, ends, row)


@compiled()
def fill_running(starts, values):
    """Overwrite the values of the rows of each element by their running sums."""
    for g in range(starts.size - 1):
        total = 0.0
        for k in range(starts[g], starts[g + 1]):
            total += values[k]
            values[k] = total
