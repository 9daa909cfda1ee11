"""Where rows are stored: what a storage of any kind can do."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True)
class Field:
    """What one number, or one line of numbers, of each row is.

    Parameters
    ----------
    dtype
        Type that it is stored in.
    shape
        Its shape in one row: () for a number.
    """

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """Its size in one row, in bytes."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=int))


class Storage(Protocol):
    """Arrays of one length that are read by rows, in memory or not.

    Graphs know it by a weak reference, as they may any object of a class without ``__slots__``.
    """

    @property
    def n_rows(self) -> int:
        """Length of the arrays."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """Name -> what a row of the array is."""

    @property
    def stamp(self) -> str:
        """What tells the contents from others without reading them all."""

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows of some arrays, in the order asked for.

        Raises
        ------
        SourceError
            If they are not there any more; names the source.
        """

    def where(self, row: int) -> str:
        """Return where a row lies, for messages."""


@runtime_checkable
class ComputingStorage(Storage, Protocol):
    """A storage that computes with its rows where they are, as on the workers of a cluster."""

    @property
    def has_workers(self) -> bool:
        """Whether there is anybody but this process to compute."""

    @property
    def cuts(self) -> Sequence[int]:
        """Where blocks that lie in different places begin, in order: passes are cut there."""

    def computed(self, names: Iterable[str], parts: Sequence["Part"], shared: Any) -> Iterator[Any]:
        """Yield what ``part.compute(shared, arrays)`` returns for each part, in their order.

        Parameters
        ----------
        names
            Arrays that it takes.
        parts
            Rows, and what is computed of them; picklable.
        shared
            What all of them take, which is pickled to each process once.

        Raises
        ------
        SourceError
            If rows cannot be had.
        """


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows, and what is computed of them.

    Parameters
    ----------
    rows
        Consecutive ones, or numbers in ascending order.
    compute
        Called with what all parts share, and name -> these rows of each array.
    """

    rows: slice | np.ndarray
    compute: Callable[[Any, Mapping[str, np.ndarray]], Any]


def computed(
    storage: Storage, names: Iterable[str], parts: Sequence[Part], shared: Any
) -> Iterator[Any]:
    """Yield what is computed of parts of the rows, where the rows are or else here.

    Parameters and errors are those of :meth:`ComputingStorage.computed`.
    """
    if isinstance(storage, ComputingStorage) and storage.has_workers:
        yield from storage.computed(names, parts, shared)
    else:
        for part in parts:
            yield part.compute(shared, storage.read(names, part.rows))
