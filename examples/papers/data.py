"""Data that the papers regress on, MNIST and Covertype, or stand-ins of the same shapes.

The files are looked for in the folder that the environment variable ``PYMC_MINIBATCH_MH_DATA``
names; :mod:`papers.prepare` makes them. ``mnist_1v7.npz`` has grey values 0 to 255,
``mnist_7v9_pca50.npz`` the scores of 50 principal components of grey values in [0, 1], fitted to
the training rows; labels are 0 for the smaller digit. Results that are stored are never those of
stand-ins.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

type Floats = NDArray[np.float64]
type Labels = NDArray[np.int64]

FOLDER = "PYMC_MINIBATCH_MH_DATA"
STAND_IN_DIFFERENCE = "Synthetic data of the same shapes replace MNIST"
SIDE = 28


@dataclass(frozen=True)
class Digits:
    """Two classes of digits, split as published.

    Parameters
    ----------
    X, y
        Training rows, shape (N, d), and their classes, 0 or 1.
    X_test, y_test
        Test rows and their classes.
    stand_in
        Whether the data are made up, by a fixed seed.
    """

    X: Floats
    y: Labels
    X_test: Floats
    y_test: Labels
    stand_in: bool = False

    @property
    def differences(self) -> list[str]:
        """What a report has to say of the data."""
        return [STAND_IN_DIFFERENCE] if self.stand_in else []

    def accuracy(self, beta: Floats) -> Floats:
        """Return the share of the test rows that weights (..., d) classify correctly."""
        hits = (beta @ self.X_test.T > 0.0) == (self.y_test == 1)
        return np.asarray(hits.mean(axis=-1))


def ones_and_sevens() -> Digits:
    """Return MNIST's 1 against 7: 784 grey values in [0, 1], 13,007 and 2,163 rows."""
    found = stored("mnist_1v7.npz")
    return _drawn_digits() if found is None else _scaled(found, 1.0 / 255.0)


def sevens_and_nines() -> Digits:
    """Return MNIST's 7 against 9: scores of 50 components, 12,214 and 2,037 rows."""
    found = stored("mnist_7v9_pca50.npz")
    return _drawn_scores() if found is None else _scaled(found, 1.0)


class MissingDataError(RuntimeError):
    """Results that are stored need the real data."""


#: Whether stand-ins are refused.
_required = False


def require(real: bool) -> None:
    """Refuse stand-ins from now on, or let them pass."""
    global _required
    _required = real


def stored(name: str) -> dict[str, NDArray[np.generic]] | None:
    """Return the arrays of a file of the folder; nothing if no folder is named.

    Raises
    ------
    MissingDataError
        If the file is not there, or no folder is named and stand-ins are refused.
    """
    folder = os.environ.get(FOLDER)
    if not folder and not _required:
        return None
    if not folder or not (Path(folder) / name).exists():
        raise MissingDataError(
            f"{name} is not in the folder that the variable {FOLDER} names ({folder or 'unset'}). "
            "`python -m papers.prepare` makes it; without --full and --published, an unset "
            "variable has made-up data replace it."
        )
    with np.load(Path(folder) / name, allow_pickle=False) as arrays:
        return dict(arrays)


def _scaled(found: dict[str, NDArray[np.generic]], scale: float) -> Digits:
    X, X_test = (scale * found[name].astype(float) for name in ("X_train", "X_test"))
    return Digits(X, found["y_train"].astype(int), X_test, found["y_test"].astype(int))


def _drawn_digits() -> Digits:
    """Draw strokes with soft edges: upright ones for a 1, and a bar on top for a 7."""
    rng = np.random.default_rng(17)
    down, across = np.mgrid[0:SIDE, 0:SIDE].astype(float)

    def rows(count: int) -> tuple[Floats, Labels]:
        y = rng.integers(0, 2, count)
        each = count, 1, 1
        slant, shift = rng.normal(0.25, 0.2, each), rng.normal(0.0, 1.6, each)
        width = rng.uniform(1.0, 2.0, each)
        line = SIDE / 2 + shift - slant * (down - SIDE / 2)
        inside = (down > 4) & (down < 24)
        stroke = np.exp(-(((across - line) / width) ** 2)) * inside
        bar = np.exp(-(((down - 6.0) / width) ** 2)) * ((across < line + 2) & (across > line - 11))
        X = np.clip(stroke + bar * y[:, None, None], 0.0, 1.0)
        return (np.round(255.0 * X) / 255.0).reshape(count, -1), y

    return Digits(*rows(13_007), *rows(2_163), stand_in=True)


def _drawn_scores() -> Digits:
    """Draw scores with components as unequal as those of digits, and classes that overlap."""
    rng = np.random.default_rng(79)
    sd = 2.3 * np.arange(1, 51) ** -0.5
    weights = rng.normal(0.0, 0.7, 50) / sd

    def rows(count: int) -> tuple[Floats, Labels]:
        X = rng.standard_normal((count, 50)) * sd
        return X, (rng.random(count) < expit(X @ weights)).astype(int)

    return Digits(*rows(12_214), *rows(2_037), stand_in=True)
