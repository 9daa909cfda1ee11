"""A normal distribution given scales, and of these a distribution of their own.

In a hierarchy the effects of groups are nearly normal *given* their scale τ, with a precision and
a mean that change with it, while jointly with log τ they are not. Here numbers z, one a scale, are
monotone functions of standard normal numbers u, scales are φ = φ₀ + A z, and the rest is
x = m(z) + W(z)⁻¹ w for further standard normal numbers w, W lower triangular. All of this can be
inverted, so that the density of any position is known.

The functions are tables, read between two knots along a straight line; what several z change is
added up. With Δ(z) that sum, diagonal entries of W are multiplied by exp(Δ), so that W can always
be inverted.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.vectors import copy_to


class ScaleConditional(NamedTuple):
    """Tables of the distribution: they change nothing but how often moves are made."""

    #: Coordinates φ, shape (p,), and x, shape (n,).
    scales: np.ndarray
    rest: np.ndarray
    #: φ₀, A and its inverse.
    middle: np.ndarray
    spread: np.ndarray
    narrow: np.ndarray
    #: First knot of u, and from one to the next.
    first_normal: float
    normal_gap: float
    #: z and dz/du at the knots of u, shape (p, J): slopes are linear between, and constant beyond.
    points: np.ndarray
    slopes: np.ndarray
    #: First knot of z, and from one to the next.
    first_knot: float
    knot_gap: float
    #: m(0), shape (n,), and W(0), line by line, with logarithms on the diagonal.
    mean: np.ndarray
    whitener: np.ndarray
    #: By how much each changes from 0 to each knot of each z, shape (p, K, ...).
    means: np.ndarray
    whiteners: np.ndarray


@compiled()
def point_at(tables, k, normal):
    """Return z, and the logarithm of dz/du, for u."""
    points, slopes, last = tables.points, tables.slopes, tables.points.shape[1] - 1
    away = normal - tables.first_normal
    if not away > 0.0:
        return points[k, 0] + slopes[k, 0] * away, np.log(slopes[k, 0])
    j = int(min(away / tables.normal_gap, float(last)))
    away -= j * tables.normal_gap
    if j == last:
        return points[k, last] + slopes[k, last] * away, np.log(slopes[k, last])
    bend = (slopes[k, j + 1] - slopes[k, j]) / tables.normal_gap
    slope = slopes[k, j] + bend * away
    return points[k, j] + 0.5 * (slopes[k, j] + slope) * away, np.log(slope)


@compiled()
def normal_at(tables, k, point):
    """Return u, and the logarithm of dz/du, for z: the inverse of :func:`point_at`."""
    points, slopes, last = tables.points, tables.slopes, tables.points.shape[1] - 1
    if not point > points[k, 0]:
        away = (point - points[k, 0]) / slopes[k, 0]
        return tables.first_normal + away, np.log(slopes[k, 0])
    low, high = 0, last + 1
    while high - low > 1:
        middle = (low + high) // 2
        if point > points[k, middle]:
            low = middle
        else:
            high = middle
    way, start = point - points[k, low], tables.first_normal + low * tables.normal_gap
    if low == last:
        return start + way / slopes[k, last], np.log(slopes[k, last])
    bend = (slopes[k, low + 1] - slopes[k, low]) / tables.normal_gap
    slope = np.sqrt(max(slopes[k, low] ** 2 + 2.0 * bend * way, 0.0))
    return start + 2.0 * way / (slopes[k, low] + slope), np.log(slope)


@compiled(inlined=True)
def _add_between(lines, k, knot, share, out):
    """Add a line of a table, read between two knots."""
    low, high = 1.0 - share, share
    # Unsigned, so that the compiler knows that no index is negative.
    one, first, second = np.uint64(k), np.uint64(knot), np.uint64(knot + 1)
    for i in range(np.uint64(out.size)):
        out[i] += low * lines[one, first, i] + high * lines[one, second, i]


@compiled()
def _set_up(tables, points, mean, whitener):
    """Write m and W for given z, with plain numbers on the diagonal; return log |W|."""
    last, size = tables.means.shape[1] - 1, mean.size
    copy_to(mean, tables.mean)
    copy_to(whitener, tables.whitener)
    for k in range(points.size):
        place = (points[k] - tables.first_knot) / tables.knot_gap
        place = min(max(place, 0.0), float(last))
        knot = min(int(place), last - 1)
        _add_between(tables.means, k, knot, place - knot, mean)
        _add_between(tables.whiteners, k, knot, place - knot, whitener)
    log_volume = 0.0
    for i in range(size):
        diagonal = i * (i + 1) // 2 + i
        log_volume += whitener[diagonal]
        whitener[diagonal] = np.exp(whitener[diagonal])
    return log_volume


@compiled(reassociate=True, inlined=True)
def _inner_of_packed(whitener, begin, vector, size):
    total = 0.0
    first = np.uint64(begin)
    for j in range(np.uint64(size)):
        total += whitener[first + j] * vector[j]
    return total


@compiled()
def whiten_given_scales(tables, position, white, work):
    """Write u, then w of a position to `white`, shape (d,), by scratch of :func:`size_of_work`.

    Returned is log |∂(u, w)/∂θ| up to a constant: the density of the position is that of a standard
    normal vector at (u, w) times this volume.
    """
    count, size = tables.scales.size, tables.rest.size
    points, mean = work[:count], work[count : count + size]
    way, whitener = work[count + size : count + 2 * size], work[count + 2 * size :]
    log_volume = 0.0
    for k in range(count):
        points[k] = 0.0
        for j in range(count):
            scale = position[tables.scales[j]] - tables.middle[j]
            points[k] += tables.narrow[k, j] * scale
        white[k], log_slope = normal_at(tables, k, points[k])
        log_volume -= log_slope
    log_volume += _set_up(tables, points, mean, whitener)
    for i in range(size):
        way[i] = position[tables.rest[i]] - mean[i]
    for i in range(size):
        white[count + i] = _inner_of_packed(whitener, i * (i + 1) // 2, way, i + 1)
    return log_volume


@compiled()
def place_given_scales(tables, white, position, work):
    """Write the position of u and w; return the value of :func:`whiten_given_scales` there."""
    count, size = tables.scales.size, tables.rest.size
    points, mean = work[:count], work[count : count + size]
    way, whitener = work[count + size : count + 2 * size], work[count + 2 * size :]
    log_volume = 0.0
    for k in range(count):
        points[k], log_slope = point_at(tables, k, white[k])
        log_volume -= log_slope
    for k in range(count):
        scale = tables.middle[k]
        for j in range(count):
            scale += tables.spread[k, j] * points[j]
        position[tables.scales[k]] = scale
    log_volume += _set_up(tables, points, mean, whitener)
    for i in range(size):
        begin = i * (i + 1) // 2
        way[i] = white[count + i] - _inner_of_packed(whitener, begin, way, i)
        way[i] /= whitener[begin + i]
        position[tables.rest[i]] = mean[i] + way[i]
    return log_volume


def size_of_work(tables: ScaleConditional) -> int:
    """Return the entries of the scratch that these functions take."""
    return tables.scales.size + tables.rest.size + tables.mean.size + tables.whitener.size
