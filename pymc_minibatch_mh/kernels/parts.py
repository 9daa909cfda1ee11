"""Bounds by parts: how much a row can change in a move, by what the row reads alone.

The position is the border w, which all rows may read, and the elements e of one or more factors,
of which a row reads one each. In units of D_i^(1/3), D_i a bound of its third derivatives, a row
departs from the centre by at most x_i = s_i ‖w‖ + |Σ_f z_if e_f|. With x' at the other end, and
δ_i = s_i ‖w' - w‖ + |Σ_f z_if (e_f' - e_f)|, its remainder of order 2 changes by at most

    φ̄_i = min{ (x_i³ + x_i'³)/6, δ_i max(x_i, x_i')²/2 },

its *ceiling*. Candidates are drawn at a rate that adds up over rows without looking at any. For
parts p, x_ip = s_i ‖w‖ or |z_if e_f|, of both ends, by Minkowski's inequality

    Σ_i (Σ_p x_ip)³ + (Σ_p x_ip')³ <= Λ³,   Λ = Σ_p P_p^(1/3),   P_p = Σ_i x_ip³ + x_ip'³,

and by Hölder's as well, with a and b as Λ of the parts of δ_i and of max(x_i, x_i'),

    Σ_i δ_i max(x_i, x_i')² <= a b².

Ceilings add up to Λ³/6 or a b²/2 at most, and the smaller one is the rate. It is that of superposed
Poisson processes, one for each part of both ends, or of the way (a third of all) and of the farther
end: a row comes from part p as often as its own cube is in P_p. Which rows come from the part of a
factor is known by sums over its elements, P_f = Σ_g C_g |e_g|³, and C_g = Σ z_i³ over the rows of
g. A candidate is kept with probability φ̄_i over its rate, by look-ups, before its data are read:
rows that are kept are independent Poisson counts with means κ φ̄_i, whatever the rate.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data.arrays import prefetch
from pymc_minibatch_mh.kernels.draw import AHEAD, integer_below
from pymc_minibatch_mh.kernels.handle import lent
from pymc_minibatch_mh.kernels.vectors import scratch

#: Far more than the rounding errors of a ceiling.
_ROUNDING = 1.0 + 1e-10


@lent
class Parts(NamedTuple):
    """Look-ups of all rows, N of them, with F factors that have L elements in all."""

    #: s_i, shape (N,), and z_if, with signs where all lie in one argument of the row: (N, F).
    border: np.ndarray
    weights: np.ndarray
    #: 1 if the signs of weights matter.
    signed: int
    #: The element of each factor that a row reads, numbered through all factors; -1 for none.
    elements: np.ndarray
    #: Where each factor's elements begin, shape (F + 1,), and the factor of each, shape (L,).
    first: np.ndarray
    #: Rows of each element: `rows[starts[g]:starts[g + 1]]`, the running sums of their |z|³, and
    #: C_g, shape (L,).
    starts: np.ndarray
    rows: np.ndarray
    running: np.ndarray
    cubes: np.ndarray
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


@lent
class Rates(NamedTuple):
    """Rates at which rows are candidates of a move: two processes at most, of F + 1 parts each.

    `kinds`, shape (2,), are which cubes the processes draw by, -1 for none; `chances`, (2, F + 1),
    those of a candidate to come from each part; a row does with probability `units`, (2, F + 1),
    times its own cube; `running`, (2, L), are running sums over the elements of each factor.
    """

    kinds: np.ndarray
    chances: np.ndarray
    units: np.ndarray
    running: np.ndarray


#: Kinds of cubes: of both ends, of the way between them, and of the end that is farther.
_ENDS, _WAY, _FARTHER = range(3)


def room_for_rates(n_factors: int, n_elements: int) -> Rates:
    """Return room for the rates of a move."""
    own = (2, 1 + n_factors)
    return Rates(np.empty(2, np.int64), np.empty(own), np.empty(own), np.empty((2, n_elements)))


@compiled(inlined=True)
def elements_of(parts, f):
    """Return the numbers of a factor's elements: unsigned, so that none is taken for negative."""
    return range(np.uint64(parts.first[f]), np.uint64(parts.first[f + 1]))


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


@compiled(inlined=True)
def _cube(kind, here, there):
    """Return the cube of a part, of both ends, of the way between them, or of the farther one."""
    here, there, step = abs(here), abs(there), abs(there - here)
    if kind == _ENDS:
        return here * here * here + there * there * there
    far = step if kind == _WAY else max(here, there)
    return far * far * far


@compiled(inlined=True)
def _cube_of_border(kind, border):
    """Return the same of the border, of which three lengths are known."""
    if kind == _WAY:
        return border[2] ** 3
    return _cube(kind, border[0], border[1])


@compiled(reassociate=True)
def _sum_cubes_of(parts, ends, f):
    """Return Σ C_g times the cubes of every kind of a factor's elements within their radii.

    The last number is that of the elements.
    """
    both, way, farther, within = 0.0, 0.0, 0.0, 0.0
    for g in elements_of(parts, f):
        one, other = abs(ends.here[g]), abs(ends.there[g])
        inside = max(one, other) <= parts.radii[g]
        both += parts.cubes[g] * _cube(_ENDS, one, other) if inside else 0.0
        way += parts.cubes[g] * _cube(_WAY, ends.here[g], ends.there[g]) if inside else 0.0
        farther += parts.cubes[g] * _cube(_FARTHER, one, other) if inside else 0.0
        within += 1.0 if inside else 0.0
    return both, way, farther, within


@compiled()
def _sum_cubes(parts, ends, sums, outside):
    """Write Σ_i of the cubes of every kind, of the border, then of each factor, shape (3, F + 1).

    Elements beyond their radii have no share; they are written to `outside`, after their number.
    """
    count = 0
    for kind in range(3):
        sums[kind, 0] = parts.border_cubes * _cube_of_border(kind, ends.border)
    for f in range(parts.first.size - 1):
        both, way, farther, within = _sum_cubes_of(parts, ends, f)
        sums[_ENDS, 1 + f], sums[_WAY, 1 + f], sums[_FARTHER, 1 + f] = both, way, farther
        if within < parts.first[f + 1] - parts.first[f]:
            for g in elements_of(parts, f):
                if not max(abs(ends.here[g]), abs(ends.there[g])) <= parts.radii[g]:
                    count += 1
                    outside[count] = g
    outside[0] = count


@compiled()
def _run_through(parts, ends, kind, running):
    """Write running sums of C_g times the cubes of one kind within each factor, shape (L,)."""
    for f in range(parts.first.size - 1):
        total = 0.0
        for g in elements_of(parts, f):
            one, other = ends.here[g], ends.there[g]
            if max(abs(one), abs(other)) <= parts.radii[g]:
                total += parts.cubes[g] * _cube(kind, one, other)
            running[g] = total


@compiled()
def find_rates(parts, ends, rates, outside):
    """Find at which rates rows are candidates of a move, and write them; return the total.

    `outside`, shape (L + 1,), becomes the number of elements beyond their radii, and these.
    """
    count, sums = parts.first.size, np.empty((3, parts.first.size))
    _sum_cubes(parts, ends, sums, outside)
    roots = np.zeros(3)
    for kind in range(3):
        for p in range(count):
            roots[kind] += np.cbrt(sums[kind, p])
    by_ends = roots[_ENDS] ** 3 / 6.0
    by_way = 0.5 * roots[_WAY] * roots[_FARTHER] ** 2
    rates.kinds[0], rates.kinds[1] = (_ENDS, -1) if by_ends <= by_way else (_WAY, _FARTHER)
    limit = min(by_ends, by_way) * _ROUNDING
    for k in range(2):
        kind = rates.kinds[k]
        if kind < 0 or not limit > 0.0:
            rates.chances[k] = 0.0
            rates.units[k] = 0.0
            continue
        whole = 1.0 if kind == _ENDS else (1.0 + (kind == _FARTHER)) / 3.0
        for p in range(count):
            root = np.cbrt(sums[kind, p])
            rates.chances[k, p] = whole * root / roots[kind]
            rates.units[k, p] = whole / (root * root * roots[kind]) if root > 0.0 else 0.0
        _run_through(parts, ends, kind, rates.running[k])
    return limit


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
def _first_above_near(sums, low, high, value, place):
    """Return the same, sought from a place that is likely near: few lines of a cache are read."""
    step = 1
    if sums[place] > value:
        while place - step >= low and sums[place - step] > value:
            step *= 2
        return _first_above(sums, max(low, place - step), min(high, place + 1), value)
    while place + step < high and not sums[place + step] > value:
        step *= 2
    return _first_above(sums, min(place + 1, high - 1), min(high, place + step + 1), value)


class _Sought(NamedTuple):
    """Candidates whose rows are not known yet, AHEAD of them.

    Each is sought between two places in the running sums of an element, by a `value`, from `near`;
    or, with `high` at -1, in an alias table at `near`.
    """

    low: np.ndarray
    high: np.ndarray
    near: np.ndarray
    value: np.ndarray


@compiled(inlined=True)
def _seek(parts, rates, rng, sought, i):
    """Draw a candidate's part, its element and its share there; ask for the memory of these."""
    left, kind, part = rng.random(), 0, 0
    for k in range(2):
        for p in range(parts.first.size):
            if left >= 0.0 and rates.chances[k, p] > 0.0:
                kind, part = k, p
                left -= rates.chances[k, p]
    if part == 0:
        sought.high[i], place = -1, integer_below(rng, parts.thresholds.size)
        sought.near[i], sought.value[i] = place, rng.random()
        prefetch(parts.thresholds.ctypes.data + 8 * place)
        prefetch(parts.aliases.ctypes.data + 4 * place)
        return
    first, last = parts.first[part - 1], parts.first[part]
    running = rates.running[kind]
    g = _first_above(running, first, last, rng.random() * running[last - 1])
    start, stop, share = parts.starts[g], parts.starts[g + 1], rng.random()
    near = start + np.int64(share * (stop - start))
    sought.low[i], sought.high[i], sought.near[i] = start, stop, near
    sought.value[i] = share * parts.cubes[g]
    prefetch(parts.running.ctypes.data + 8 * near)
    prefetch(parts.rows.ctypes.data + 8 * near)


@compiled(inlined=True)
def _row_of(parts, sought, i):
    """Return the row of a candidate."""
    low, high, near, value = sought.low[i], sought.high[i], sought.near[i], sought.value[i]
    if high < 0:
        return near if value < parts.thresholds[near] else np.int64(parts.aliases[near])
    return parts.rows[_first_above_near(parts.running, low, high, value, near)]


@compiled()
def draw_candidates(parts, rates, rng, rows, chances):
    """Draw rows at the rates of their parts, at most AHEAD, and a uniform number for each.

    The memory of all is asked for before the first is looked at: none is likely to be in a cache.
    """
    sought = _Sought(
        scratch(AHEAD, np.int64),
        scratch(AHEAD, np.int64),
        scratch(AHEAD, np.int64),
        scratch(AHEAD, np.float64),
    )
    n_factors = parts.weights.shape[1]
    for i in range(rows.size):
        _seek(parts, rates, rng, sought, i)
        chances[i] = rng.random()
    for i in range(rows.size):
        row = rows[i] = _row_of(parts, sought, i)
        prefetch(parts.border.ctypes.data + 8 * row)
        prefetch(parts.weights.ctypes.data + 8 * n_factors * row)
        prefetch(parts.elements.ctypes.data + 4 * n_factors * row)


@compiled(inlined=True)
def chance_of_row(parts, ends, rates, row):
    """Return the probability that a candidate is this row."""
    s, found = parts.border[row], 0.0
    for k in range(2):
        kind = rates.kinds[k]
        if kind < 0:
            break
        found += rates.units[k, 0] * s * s * s * _cube_of_border(kind, ends.border)
        for f in range(parts.weights.shape[1]):
            g = parts.elements[row, f]
            if g >= 0:
                z = abs(parts.weights[row, f])
                own = z * z * z * _cube(kind, ends.here[g], ends.there[g])
                found += rates.units[k, 1 + f] * own
    return found


@compiled(inlined=True)
def share_of_candidates(parts, ends, rates, limit, row):
    """Return φ̄_i over the rate at which a row is drawn, and φ̄_i; `limit` is the rate of all."""
    own, rate = ceiling(parts, ends, row), limit * chance_of_row(parts, ends, rates, row)
    return (own / rate if rate > 0.0 else 0.0), own


@compiled()
def ceilings_of(parts, ends, out):
    """Write the ceiling of every row in a move."""
    for row in range(out.size):
        out[row] = ceiling(parts, ends, row)


@compiled()
def fill_running(starts, values, totals):
    """Overwrite the values of each element's rows by their running sums, and write their totals."""
    for g in range(starts.size - 1):
        total = 0.0
        for k in range(starts[g], starts[g + 1]):
            total += values[k]
            values[k] = total
        totals[g] = total
