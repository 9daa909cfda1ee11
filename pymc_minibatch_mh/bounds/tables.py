"""The tables of c_i: for every row, over nested trust regions.

A table holds for pairs of positions inside its radius; which one serves a pair follows from the
pair alone, symmetrically.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from pymc_minibatch_mh.bounds.geometry import Groups
from pymc_minibatch_mh.data import code_digest, digest
from pymc_minibatch_mh.data.files import MappedArrays
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.bound_tables import (
    KIND,
    NO_ROWS,
    TOTAL,
    BoundTables,
    no_metric,
    no_tables,
)
from pymc_minibatch_mh.kernels.draw import build_alias
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.moves import RANGE
from pymc_minibatch_mh.kernels.roles import METRIC_SIGNATURE

#: Bytes of bounds up to which a pickle holds them.
SMALL = 2**20

_log = logging.getLogger("pymc")


def shipped(c: np.ndarray, mapped: Any) -> np.ndarray | MappedArrays | None:
    """Return what a pickle holds of bounds: all, where they are, or nothing if no file takes them.

    Parameters
    ----------
    c : ndarray of float32, shape (T, N)
    mapped
        Returns them, and their alias tables, in a file.
    """
    if c.nbytes <= SMALL:
        return c
    try:
        return mapped()
    except OSError as error:
        _log.warning(
            "Bounds of %s bytes cannot be written to a temporary file (%s), so that each process "
            "derives its own. Free space, or set TMPDIR.",
            f"{c.nbytes:,}",
            error,
        )
        return None


def received(c: np.ndarray | MappedArrays | None) -> dict[str, Any]:
    """Return bounds, and alias tables where they were sent along.

    Raises
    ------
    FileNotFoundError
        If there is no file, or none any more, as in a later session.
    """
    if c is None:
        raise FileNotFoundError("bounds were not sent along")
    if isinstance(c, np.ndarray):
        return {"c": c}
    arrays = c.read()
    return {"c": arrays["c"], "alias": (arrays["thresholds"], arrays["aliases"]), "_mapped": c}


def compiled_metric(metric: Callable[..., float]) -> Any:
    """Return a metric as a first-class function (``METRIC``); SettingError if it has none.

    Such a function cannot raise: numba would go on as if it had returned 0, and no row would be
    read. Where the user's function raises, this one is NaN, and all rows decide.
    """
    inner = njit(getattr(metric, "py_func", metric))

    def guarded(position, new):  # type: ignore[no-untyped-def]
        try:
            return inner(position, new)
        except Exception:
            return np.nan

    try:
        return njit(METRIC_SIGNATURE)(guarded)
    except NumbaError as error:
        raise SettingError(
            f"bounds=Bounds(c, metric) has a metric that numba cannot compile: {error}. Write it "
            "as a function of two vectors, with NumPy operations and loops only."
        ) from error


@dataclass(frozen=True, eq=False)
class Tables:
    """Bounds of all rows.

    `heads`, shape (T, 3), are radius, kind and Σc_i of every table, smallest radius first; `c`,
    shape (T, N), float32, is rounded up. `looseness` is Σc_i over that of enclosures of zero
    radius, at the smallest radius. Bounds that are not `verified` are a user's, as is `metric`.
    `heavy` rows are read at every update: see :mod:`plan.violations`. With `groups` M is the
    largest of groups of rows.
    """

    heads: np.ndarray
    c: np.ndarray
    looseness: float
    verified: bool = True
    metric: Callable[..., float] | None = None
    heavy: np.ndarray = field(default_factory=lambda: NO_ROWS)
    groups: Groups | None = None

    @property
    def are_ranges(self) -> bool:
        """Whether they are the ranges of log-likelihoods: see :mod:`bounds.user_bounds`."""
        return bool(self.heads[0, KIND] == RANGE)

    @property
    def key(self) -> str:
        """What tells these bounds from others of one model and one centre, in every process."""
        if self.verified:
            return "derived"
        metric = "" if self.metric is None else code_digest(self.metric)
        return f"{digest(self.c)} {metric}"

    @property
    def nbytes(self) -> int:
        """Size of all tables, in bytes."""
        return sum(array.nbytes for array in (self.heads, self.c, *self.alias))

    @cached_property
    def alias(self) -> tuple[np.ndarray, np.ndarray]:
        """Alias tables of all rows but the heavy ones, shapes (T, N): float64 and int32."""
        thresholds = np.empty(self.c.shape)
        aliases = np.empty(self.c.shape, dtype=np.int32)
        for k in range(len(self.c)):
            build_alias(self._light(k), thresholds[k], aliases[k])
        return thresholds, aliases

    @cached_property
    def arrays(self) -> BoundTables:
        """The tables as tests read them that draw rows by their bounds."""
        thresholds, aliases = self.alias
        return self.undrawn._replace(
            heads=self.heads_of_drawn, thresholds=thresholds, aliases=aliases, heavy=self.heavy
        )

    @cached_property
    def undrawn(self) -> BoundTables:
        """The tables as tests read them that draw no rows by their bounds."""
        metric = address_of(self.compiled_metric)
        arrays = no_tables()._replace(heads=self.heads, c=self.c, metric=metric)
        return arrays if self.groups is None else arrays._replace(**self.groups._asdict())

    @cached_property
    def heads_of_drawn(self) -> np.ndarray:
        """The heads, with Σc_i over the rows that are drawn: all but the heavy ones."""
        if not self.heavy.size:
            return self.heads
        heads = self.heads.copy()
        heads[:, TOTAL] = [self._light(k).sum(dtype=np.float64) for k in range(len(self.c))]
        return heads

    def reading_always(self, heavy: np.ndarray) -> Self:
        """Return the same bounds with other rows that every update reads."""
        return replace(self, heavy=np.ascontiguousarray(heavy, np.int64))

    def _light(self, table: int) -> np.ndarray:
        if not self.heavy.size:
            return self.c[table]
        light = self.c[table].copy()
        light[self.heavy] = 0.0
        return light

    @cached_property
    def compiled_metric(self) -> Any:
        """The metric as a first-class function (``METRIC``)."""
        return no_metric if self.metric is None else compiled_metric(self.metric)

    @cached_property
    def _mapped(self) -> MappedArrays:
        thresholds, aliases = self.alias
        return MappedArrays({"c": self.c, "thresholds": thresholds, "aliases": aliases})

    def __getstate__(self) -> dict[str, Any]:
        """Leave large arrays to a file that processes share, and addresses behind."""
        dropped = (
            "alias",
            "arrays",
            "compiled_metric",
            "heads_of_drawn",
            "undrawn",
            "_mapped",
        )
        state = {name: value for name, value in self.__dict__.items() if name not in dropped}
        return {**state, "c": shipped(self.c, lambda: self._mapped)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was sent along.

        Raises
        ------
        FileNotFoundError
            If the bounds are not there any more.
        """
        self.__dict__.update(state | received(state["c"]))
