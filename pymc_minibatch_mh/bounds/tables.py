"""The tables of c_i: for every row, over nested trust regions.

A table holds for pairs of positions inside its radius; which one serves a pair follows from the
pair alone, symmetrically.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numba import carray, cfunc, njit, types
from numba.core.errors import NumbaError

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.bounds.geometry import Groups
from pymc_minibatch_mh.data import array_digest, code_digest
from pymc_minibatch_mh.data.files import MappedArrays
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.bound_tables import NO_ROWS, TOTAL, BoundTables, no_tables
from pymc_minibatch_mh.native.library import ffi, function
from pymc_minibatch_mh.native.whitened_copy import NO_COPY, WhitenedCopy
from pymc_minibatch_mh.reference.full_data import BoundedMove
from pymc_minibatch_mh.reference.influential import WORTHWHILE

#: Bytes of bounds up to which a pickle holds them.
SMALL = 2**20

_log = logging.getLogger("pymc")


def without_cached(value: Any) -> dict[str, Any]:
    """Return the attributes of a value but for its cached properties, which are made again."""
    own = type(value)
    cached = {name for name in dir(own) if isinstance(getattr(own, name), cached_property)}
    return {name: held for name, held in vars(value).items() if name not in cached}


def _sent(c: np.ndarray, size: int, mapped: Any) -> np.ndarray | MappedArrays | None:
    """Return bounds for a pickle, in a file if large; None if no file takes `size` bytes."""
    if size <= SMALL:
        return c
    try:
        return mapped()
    except OSError as error:
        _log.warning(
            "Bounds of %s bytes cannot be written to a temporary file (%s), so each process "
            "derives its own. Free space, or set TMPDIR.",
            f"{size:,}",
            error,
        )
        return None


def _received(state: dict[str, Any]) -> "Tables | None":
    """Return tables that were sent; None if their file is gone, as in a later session."""
    tables, c = object.__new__(Tables), state["c"]
    tables.__dict__.update(state)
    if isinstance(c, MappedArrays):
        try:
            arrays = c.read()
        except FileNotFoundError:
            return None
        alias = arrays["thresholds"], arrays["aliases"]
        copy = tables.copy._replace(lines=arrays["lines"])
        tables.__dict__.update(c=arrays["c"], alias=alias, copy=copy, _mapped=c)
    return None if c is None else tables


_VECTOR = types.CPointer(types.float64)
_METRIC = types.float64(_VECTOR, _VECTOR, types.int64)


def compiled_metric(metric: Callable[..., float]) -> Any:
    """Return a metric as compiled loops call it (``mh_metric``); SettingError if numba cannot.

    Such a function cannot raise: numba would go on as if it had returned 0, and no row would be
    read. Where the user's function raises, this one is NaN, and all rows decide.
    """
    inner = njit(getattr(metric, "py_func", metric))

    @njit
    def guarded(position, new):  # type: ignore[no-untyped-def]
        try:
            return inner(position, new)
        except Exception:
            return np.nan

    def with_vectors(position, new, size):  # type: ignore[no-untyped-def]
        return guarded(carray(position, size), carray(new, size))

    try:
        return cfunc(_METRIC)(with_vectors)
    except NumbaError as error:
        raise SettingError(
            f"bounds=Bounds(c, metric) has a metric that numba cannot compile: {error}. Write it "
            "as a function of two vectors, with NumPy operations and loops only."
        ) from error


@dataclass(frozen=True, eq=False)
class Tables:
    """Bounds of all rows.

    `headers`, shape (T, 3), are radius, kind and Σc_i of every table, smallest radius first; `c`,
    shape (T, N), is float32. `looseness` is the least Σc_i over that of enclosures of zero radius.
    Bounds that are not `verified` are a user's, as is `metric`. `heavy` rows are read at every
    update. With `groups` M is the largest of groups of rows. By the `copy`, which may have no rows,
    candidates are dropped before they are read.
    """

    headers: np.ndarray
    c: np.ndarray
    looseness: float
    verified: bool = True
    metric: Callable[..., float] | None = None
    heavy: np.ndarray = field(default_factory=lambda: NO_ROWS)
    groups: Groups | None = None
    copy: WhitenedCopy = NO_COPY

    @property
    def key(self) -> str:
        """Identity of these bounds among others of one model and centre, in every process."""
        if self.verified:
            return "derived"
        metric = "" if self.metric is None else code_digest(self.metric)
        return f"{array_digest(self.c)} {metric}"

    @property
    def nbytes(self) -> int:
        """Size of all tables, in bytes."""
        arrays = self.headers, self.c, self.copy.lines, *self.alias
        return sum(array.nbytes for array in arrays)

    @cached_property
    def alias(self) -> tuple[np.ndarray, np.ndarray]:
        """Alias tables of all rows but the heavy ones, shapes (T, N): float64 and int32."""
        thresholds = np.empty(self.c.shape)
        aliases = np.empty(self.c.shape, dtype=np.int32)
        for k in range(len(self.c)):
            weights = self._light(k)
            function("mh_build_alias")(weights.size, weights, thresholds[k], aliases[k])
        return thresholds, aliases

    @cached_property
    def arrays(self) -> BoundTables:
        """The tables as tests read them that draw rows by their bounds."""
        thresholds, aliases = self.alias
        return self.undrawn._replace(
            headers=self.heads_of_drawn,
            thresholds=thresholds,
            aliases=aliases,
            heavy=self.heavy,
            copy=self.copy,
        )

    @cached_property
    def undrawn(self) -> BoundTables:
        """The tables as tests read them that draw no rows by their bounds."""
        metric = self.compiled_metric
        arrays = no_tables()._replace(headers=self.headers, c=self.c, metric=metric)
        return arrays if self.groups is None else arrays._replace(**self.groups._asdict())

    @cached_property
    def heads_of_drawn(self) -> np.ndarray:
        """The headers, with Σc_i over the rows that are drawn: all but the heavy ones."""
        if not self.heavy.size:
            return self.headers
        headers = self.headers.copy()
        headers[:, TOTAL] = [self._light(k).sum(dtype=np.float64) for k in range(len(self.c))]
        return headers

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
        """The metric as compiled loops call it (``mh_metric``), None without one."""
        return None if self.metric is None else compiled_metric(self.metric)

    def metric_between(self, position: np.ndarray, new: np.ndarray) -> float:
        """Return the metric of a move."""
        call = ffi.cast("mh_metric", self.compiled_metric.address)
        ends = (ffi.from_buffer("double[]", end) for end in (position, new))
        return call(*ends, position.size)

    @cached_property
    def _mapped(self) -> MappedArrays:
        thresholds, aliases = self.alias
        lines = self.copy.lines
        return MappedArrays(
            {"c": self.c, "thresholds": thresholds, "aliases": aliases, "lines": lines}
        )

    def __reduce__(self) -> tuple:
        """Leave large arrays to a file that processes share, and addresses behind."""
        c = _sent(self.c, self.c.nbytes + self.copy.lines.nbytes, lambda: self._mapped)
        copy = self.copy if c is self.c else self.copy._replace(lines=NO_COPY.lines)
        return _received, ({**without_cached(self), "c": c, "copy": copy},)


def heavy_rows(tables: Tables, typical: Iterable[BoundedMove]) -> np.ndarray:
    """Influential rows, in order: typical moves draw them so often that reading always is cheaper.

    A few rows can hold nearly all of C = Σ c_i (docs/bounds.md). They are fixed before sampling, so
    that the test stays exact. There are none where no move is bounded, or little is saved.
    """
    moves = list(typical)
    if not moves:
        return NO_ROWS
    served = [move.table for move in moves]
    table = max(set(served), key=served.count)
    drawn = tables.c[table] * np.median([move.m for move in moves if move.table == table])
    price = costs.CANDIDATE if tables.copy.lines.size else costs.OBSERVATION
    heavy = np.flatnonzero(drawn > costs.INCLUDED_OBSERVATION / price)
    all_drawn = float(drawn.sum(dtype=np.float64))
    light = all_drawn - float(drawn[heavy].sum(dtype=np.float64))
    # A move that would read more than all rows reads all of them.
    worthwhile = heavy.size + light <= WORTHWHILE * min(all_drawn, drawn.size)
    return heavy.astype(np.int64) if worthwhile else NO_ROWS
