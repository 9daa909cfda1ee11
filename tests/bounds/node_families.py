"""Nodes with known derivatives, and those of their log-sum-exp by power series."""

from typing import NamedTuple

import numpy as np


class Nodes(NamedTuple):
    """The C record mh_nodes."""

    n_nodes: int
    size: int
    values: np.ndarray
    shares: np.ndarray
    gradients: np.ndarray
    hessians: np.ndarray
    third: np.ndarray


class Suprema(NamedTuple):
    """The C record mh_suprema."""

    second: np.ndarray
    third: np.ndarray
    fourth: np.ndarray
    upward: np.ndarray


def logistic(u, y):
    p = 1.0 / (1.0 + np.exp(-u))
    v = p * (1.0 - p)
    return [y * u - np.logaddexp(0.0, u), y - p, -v, -v * (1 - 2 * p), -v * (1 - 6 * v)]


def poisson(u, y):
    return [y * u - np.exp(u), y - np.exp(u), *[-np.exp(u)] * 3]


def normal(u, y):
    return [-0.5 * (y - u) ** 2, y - u, -np.ones_like(u), *np.zeros((2, *u.shape))]


def cubic(u, y):
    return [u**3 / 6, u**2 / 2, u, np.ones_like(u), np.zeros_like(u)]


def ripples(u, y):
    """Return rows of which the higher derivatives are large, and the others small."""
    return [10.0 ** (2 * k - 4) * np.sin(100.0 * u + 0.5 * np.pi * k) for k in range(5)]


def logistic_suprema(u, reach):
    _, _, _, third, fourth = logistic(u, 0.0)
    second = -logistic(np.maximum(np.abs(u) - reach, 0.0), 0.0)[2]
    # Everywhere the derivatives of order 3 to 5 are at most these.
    third = np.minimum(np.abs(third) + reach / 8, 0.0963)
    return second, third, np.minimum(np.abs(fourth) + reach / 5, 1 / 8)


def poisson_suprema(u, reach):
    return [np.exp(u + reach)] * 3


def normal_suprema(u, _):
    return np.ones_like(u), np.zeros_like(u), np.zeros_like(u)


def cubic_suprema(u, reach):
    return np.abs(u) + reach, np.ones_like(u), np.zeros_like(u)


def ripples_suprema(u, _):
    return [np.full_like(u, 10.0 ** (2 * k - 4)) for k in (2, 3, 4)]


#: Derivatives of order 0 to 4; suprema of those of order 2 to 4 within a reach; whether concave.
ROWS = {
    "logistic": (logistic, logistic_suprema, True),
    "poisson": (poisson, poisson_suprema, True),
    "normal": (normal, normal_suprema, True),
    "cubic": (cubic, cubic_suprema, False),
    "ripples": (ripples, ripples_suprema, False),
}


class Family(NamedTuple):
    """F_q(x) = constant_q + slope_q.x + x.bend_q.x/2 + sum_i f_i(offset_qi + direction_qi.x)."""

    constants: np.ndarray  # (n_nodes,)
    slopes: np.ndarray  # (n_nodes, d)
    bends: np.ndarray  # (n_nodes, d, d)
    offsets: np.ndarray  # (n_nodes, n)
    directions: np.ndarray  # (n_nodes, n, d)
    data: np.ndarray  # (n,)
    kind: str = "logistic"

    @property
    def size(self):
        return self.slopes.shape[1]

    def of_nodes(self, numbers):
        """Return the family of some of the nodes."""
        return self._replace(**{name: getattr(self, name)[numbers] for name in self._fields[:5]})

    def series(self, points, lines):
        """Return coefficients of F_q(x + t v), (m, n_nodes, 5), at m points along m directions."""
        u = self.offsets + np.einsum("qid,md->mqi", self.directions, points)
        along = np.einsum("qid,md->mqi", self.directions, lines)
        factors = [1.0, 1.0, 1 / 2, 1 / 6, 1 / 24]
        f = ROWS[self.kind][0](u, self.data)
        out = np.stack([(f[k] * factors[k] * along**k).sum(axis=2) for k in range(5)], axis=2)
        bent = np.einsum("qij,mj->mqi", self.bends, points)
        out[:, :, 0] += self.constants + points @ self.slopes.T
        out[:, :, 0] += 0.5 * np.einsum("mqi,mi->mq", bent, points)
        out[:, :, 1] += lines @ self.slopes.T + np.einsum("mqi,mi->mq", bent, lines)
        out[:, :, 2] += 0.5 * np.einsum("qij,mi,mj->mq", self.bends, lines, lines)
        return out

    def derivatives(self, points, lines):
        """Return the third and fourth derivative of log sum_q exp F_q, (2, m)."""
        a = self.series(points, lines)
        shares = np.exp(a[:, :, 0] - a[:, :, 0].max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        powers = [np.ones_like(shares)]
        for k in range(1, 5):
            powers.append(sum(j * a[:, :, j] * powers[k - j] for j in range(1, k + 1)) / k)
        total = [(shares * power).sum(axis=1) for power in powers]
        log = [None]
        for k in range(1, 5):
            log.append(total[k] - sum(j * log[j] * total[k - j] for j in range(1, k)) / k)
        return np.stack([6.0 * log[3], 24.0 * log[4]])

    def nodes(self):
        """Return the record of the nodes at x = 0."""
        f, g, h, t, _ = ROWS[self.kind][0](self.offsets, self.data)
        v = self.directions
        values = self.constants + f.sum(axis=1)
        shares = np.exp(values - values.max())
        shares /= shares.sum()
        return Nodes(
            len(values),
            self.size,
            values,
            shares,
            self.slopes + np.einsum("qi,qid->qd", g, v),
            self.bends + np.einsum("qi,qid,qie->qde", h, v, v),
            np.einsum("q,qi,qid,qie,qif->def", shares, t, v, v, v),
        )

    def suprema(self, radius):
        """Return the record of suprema within a radius, by triangle inequalities."""
        v, length = self.directions, np.linalg.norm(self.directions, axis=2)
        _, row_suprema, concave = ROWS[self.kind]
        second, third, fourth = row_suprema(self.offsets, radius * length)
        bend, longest = np.linalg.eigvalsh(self.bends), length.max(axis=1, initial=0.0)
        of_rows = _norms(second, v)
        return Suprema(
            of_rows + np.abs(bend).max(axis=1),
            longest * _norms(third, v),
            longest**2 * _norms(fourth, v),
            (not concave) * of_rows + np.maximum(bend[:, -1], 0.0),
        )


def _norms(weights, v):
    return np.linalg.norm(np.einsum("qi,qid,qie->qde", weights, v, v), axis=(1, 2))


def find_largest(family, radius, order, rng, count=60, rounds=40):
    """Return the largest derivative of an order that a random search finds in a ball."""

    def into_ball(points, lines):
        length = np.linalg.norm(points, axis=1, keepdims=True)
        points = points * np.minimum(1.0, radius / np.maximum(length, 1e-300))
        return points, lines / np.linalg.norm(lines, axis=1, keepdims=True)

    points, lines = into_ball(*rng.normal(size=(2, count, family.size)) * [[[radius]], [[1.0]]])
    points[: count // 4] = 0.0
    best = np.abs(family.derivatives(points, lines)[order - 3])
    for step in np.geomspace(1.0, 1e-3, rounds):
        noise = step * rng.normal(size=(2, count, family.size))
        new_points, new_lines = into_ball(points + radius * noise[0], lines + noise[1])
        values = np.abs(family.derivatives(new_points, new_lines)[order - 3])
        better = values > best
        points[better], lines[better], best[better] = (
            new_points[better], new_lines[better], values[better],
        )  # fmt: skip
    return best.max()
