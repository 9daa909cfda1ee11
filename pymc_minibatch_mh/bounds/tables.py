"""Tables of the bounds c_i of every row, over nested trust regions.

A table is valid for pairs of positions inside its radius; the choice of a table is symmetric in the
pair.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
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

#: Maximum size of bounds within a pickle, in bytes; larger ones go to a file.
SMALL = 2**20

_log = logging.getLogger("pymc")


def without_cached(value: Any) -> dict[str, Any]:
    """Attributes of a value without its cached properties."""
    own = type(value)
    cached = {name for name in dir(own) if isinstance(getattr(own, name), cached_property)}
    return {name: held for name, held in vars(value).items() if name not in cached}


def _pickled_bounds(c: np.ndarray, size: int, mapped: Any) -> np.ndarray | MappedArrays | None:
    """Bounds for a pickle, in a file if large; None if there is no space for `size` bytes."""
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


def _restored_tables(state: dict[str, Any]) -> "Tables | None":
    """Tables from a pickle; None if their file is gone, as in a later session."""
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
    """Metric for compiled loops (``mh_metric``); SettingError if numba cannot compile it.

    An exception becomes NaN, so that all rows are evaluated; numba alone would continue with 0.
    """
    inner = njit(getattr(metric, "py_func", metric))

    @njit
    def guarded_metric(position, new):  # type: ignore[no-untyped-def]
        try:
            return inner(position, new)
        except Exception:
            return np.nan

    def with_vectors(position, new, size):  # type: ignore[no-untyped-def]
        return guarded_metric(carray(position, size), carray(new, size))

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

    `headers`, shape (T, 3), has radius, kind and Σc_i of every table, smallest radius first; `c`,
    shape (T, N), is float32. If not `verified`, bounds come from the user, as does `metric`. Every
    update evaluates the rows `heavy`, among them those without a bound, whose c_i is infinite. With
    `groups`, M is the maximum over groups. A whitened `copy` rejects candidates.
    """

    headers: np.ndarray
    c: np.ndarray
    verified: bool = True
    metric: Callable[..., float] | None = None
    heavy: np.ndarray = field(default_factory=lambda: NO_ROWS)
    groups: Groups | None = None
    copy: WhitenedCopy = NO_COPY
    #: Unit vector along which tables have `intervals`, shape (T, 2); radii are those of the rest.
    along: np.ndarray | None = None
    intervals: np.ndarray | None = None

    @property
    def key(self) -> str:
        """Key that identifies these bounds in every process, for a given model and centre."""
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
    def _members(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows sorted by group, and the first of each group, then an end."""
        assert self.groups is not None
        labels = self.groups.labels
        counts = np.bincount(labels, minlength=self.groups.n_groups)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return np.argsort(labels, kind="stable").astype(np.int32), starts

    @property
    def has_members(self) -> bool:
        """Whether candidates are drawn by groups of rows."""
        return self.groups is not None and self.groups.labels.size > 0

    def _weights_of_groups(self, table: int) -> np.ndarray:
        """Products of c_i and both shares of rows sorted by group, shape (2, N), float32."""
        assert self.groups is not None
        members = self._members[0]
        return self._c_of_light(table)[members] * self.groups.shares[members].T

    @cached_property
    def _sums_of_groups(self) -> np.ndarray:
        """Sums of these products in each group, and their roots, shape (T, groups, 4)."""
        assert self.groups is not None
        starts = self._members[1]
        sums = np.zeros((len(self.c), len(starts) - 1, 2))
        filled = np.flatnonzero(np.diff(starts))
        for k in range(len(self.c)):
            weights = self._weights_of_groups(k).astype(np.float64)
            sums[k, filled] = np.add.reduceat(weights, starts[filled], axis=1).T
        return np.concatenate([sums, sums ** (1.0 / self.groups.power)], axis=2)

    def _alias_of_groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Two alias tables of each group, shapes (T, 2, N), whose aliases are rows."""
        members, starts = self._members
        thresholds = np.ones((len(self.c), 2, members.size))
        aliases = np.zeros(thresholds.shape, dtype=np.int32)
        for k in range(len(self.c)):
            for part, weights in enumerate(self._weights_of_groups(k)):
                for first, last in pairwise(starts):
                    of_group = np.ascontiguousarray(weights[first:last])
                    if of_group.any():
                        entries = k, part, slice(first, last)
                        pair = thresholds[entries], aliases[entries]
                        function("mh_build_alias")(of_group.size, of_group, *pair)
                        aliases[entries] = members[first + aliases[entries]]
        return thresholds, aliases

    @cached_property
    def alias(self) -> tuple[np.ndarray, np.ndarray]:
        """Alias tables that omit influential rows, shapes (T, N): float64 and int32."""
        if self.has_members:
            return self._alias_of_groups()
        thresholds = np.empty(self.c.shape)
        aliases = np.empty(self.c.shape, dtype=np.int32)
        for k in range(len(self.c)):
            weights = self._c_of_light(k)
            function("mh_build_alias")(weights.size, weights, thresholds[k], aliases[k])
        return thresholds, aliases

    @cached_property
    def arrays(self) -> BoundTables:
        """Tables for tests that sample rows in proportion to their bounds."""
        thresholds, aliases = self.alias
        return self.without_sampling_tables._replace(
            headers=self.heads_of_drawn,
            thresholds=thresholds,
            aliases=aliases,
            heavy=self.heavy,
            copy=self.copy,
        )

    @cached_property
    def without_sampling_tables(self) -> BoundTables:
        """Tables without alias tables, for tests that do not sample rows by their bounds."""
        metric = self.compiled_metric
        arrays = no_tables()._replace(
            headers=self.headers,
            c=self.c,
            metric=metric,
            along=self.along,
            intervals=self.intervals,
        )
        if self.groups is None:
            return arrays
        arrays = arrays._replace(
            shared=self.groups.shared, own=self.groups.own, each=self.groups.each
        )
        if not self.has_members:
            return arrays
        members, starts = self._members
        return arrays._replace(
            labels=self.groups.labels,
            shares=self.groups.shares,
            members=members,
            starts=starts,
            sums=self._sums_of_groups,
        )

    @cached_property
    def heads_of_drawn(self) -> np.ndarray:
        """Headers of the tables, with Σc_i over all rows that are not influential."""
        if not self.heavy.size:
            return self.headers
        headers = self.headers.copy()
        headers[:, TOTAL] = [self._c_of_light(k).sum(dtype=np.float64) for k in range(len(self.c))]
        return headers

    @cached_property
    def unbounded(self) -> np.ndarray:
        """Rows without a bound, sorted."""
        return np.flatnonzero(~np.isfinite(self.c).all(axis=0))

    def reading_always(self, heavy: np.ndarray) -> Self:
        """The same bounds with other influential rows, which every update evaluates."""
        return replace(self, heavy=np.ascontiguousarray(heavy, np.int64))

    def _c_of_light(self, table: int) -> np.ndarray:
        if not self.heavy.size:
            return self.c[table]
        light = self.c[table].copy()
        light[self.heavy] = 0.0
        return light

    @cached_property
    def compiled_metric(self) -> Any:
        """User's metric for compiled loops (``mh_metric``); None without a custom metric."""
        return None if self.metric is None else compiled_metric(self.metric)

    def metric_between(self, position: np.ndarray, new: np.ndarray) -> float:
        """Value of the metric for a proposal."""
        call = ffi.cast("mh_metric", self.compiled_metric.address)
        ends = (ffi.from_buffer("double[]", end) for end in (position, new))
        return call(*ends, position.size)

    @cached_property
    def _as_mapped(self) -> MappedArrays:
        thresholds, aliases = self.alias
        arrays = {"c": self.c, "thresholds": thresholds, "aliases": aliases}
        return MappedArrays({**arrays, "lines": self.copy.lines})

    def __reduce__(self) -> tuple:
        """State without addresses; large arrays are in a file, which processes share."""
        c = _pickled_bounds(self.c, self.c.nbytes + self.copy.lines.nbytes, lambda: self._as_mapped)
        copy = self.copy if c is self.c else self.copy._replace(lines=NO_COPY.lines)
        return _restored_tables, ({**without_cached(self), "c": c, "copy": copy},)


def heavy_rows(tables: Tables, typical: Iterable[BoundedMove]) -> np.ndarray:
    """Influential rows, sorted: they are cheaper to include in every update than to sample.

    A few rows can have nearly all of C = Σ c_i (docs/bounds.md). They are fixed before sampling, so
    that the test stays exact. The result is empty without bounds, or if it would save little.
    """
    moves = list(typical)
    if not moves:
        return NO_ROWS
    served = [move.table for move in moves]
    table = max(set(served), key=served.count)
    drawn = tables.c[table] * np.median([move.m for move in moves if move.table == table])
    # With a whitened copy, most sampled rows are rejected at the lower cost of a candidate.
    price = costs.CANDIDATE if tables.copy.lines.size else costs.OBSERVATION
    heavy = np.flatnonzero(drawn > costs.INCLUDED_OBSERVATION / price)
    all_drawn = float(drawn.sum(dtype=np.float64))
    light = float(np.delete(drawn, heavy).sum(dtype=np.float64))
    # Without influential rows, a proposal evaluates at most all rows.
    worthwhile = heavy.size + light <= WORTHWHILE * min(all_drawn, drawn.size)
    return heavy.astype(np.int64) if worthwhile else NO_ROWS
