"""Rows of Dask arrays: computed block by block, so that only the wanted rows travel."""

from collections.abc import Iterable, Mapping
from typing import Any

import dask.array as da
import numpy as np

from pymc_minibatch_mh.data.checks import common_length, native_type, require_names
from pymc_minibatch_mh.data.dask_scheduler import address_in_use, compute
from pymc_minibatch_mh.data.stored import Field
from pymc_minibatch_mh.errors import SettingError, SourceError


class DaskStorage:
    """Arrays of Dask, rows on the first axis, computed by the scheduler that Dask has.

    That is the client of `distributed` where there is one. Other processes, such as those of
    chains, connect to the same cluster.

    Parameters
    ----------
    arrays
        Name -> array. Two reads of a row have to give the same numbers.

    Raises
    ------
    SettingError
        If there is no array, or one is not numeric, has no rows or another number of them.
    """

    def __init__(self, arrays: Mapping[str, da.Array]) -> None:
        require_names("from_dask()", arrays)
        for name, array in arrays.items():
            _require_known(name, array)
        self._arrays = dict(arrays)
        self.fields = {
            name: Field(native_type(repr(name), np.dtype(x.dtype)), tuple(map(int, x.shape[1:])))
            for name, x in arrays.items()
        }
        self.n_rows = common_length({repr(name): int(x.shape[0]) for name, x in arrays.items()})
        self.stamp = "; ".join(f"{name}: {array.name}" for name, array in arrays.items())
        self._address = address_in_use()

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Compute some rows.

        Raises
        ------
        SourceError
            If Dask cannot; names the rows and what Dask says.
        """
        names = list(names)
        places = None
        if not isinstance(rows, slice):
            # Dask takes sorted rows from every chunk once.
            rows, places = np.unique(rows, return_inverse=True)
            if rows.size and not (rows[0] >= 0 and rows[-1] < self.n_rows):
                raise IndexError(f"rows {rows[0]} to {rows[-1]} are asked for among {self.n_rows}")
        wanted = [self._arrays[name][rows] for name in names]
        try:
            found = compute(wanted, self._address)
        except Exception as error:
            raise SourceError(
                f"Dask cannot compute {self._span(rows)} of {', '.join(map(repr, names))}: "
                f"{type(error).__name__}: {error}. Compute the arrays without this package to see "
                "where it fails."
            ) from error
        return {
            name: self._checked(name, asked, array)[... if places is None else places]
            for name, asked, array in zip(names, wanted, found, strict=True)
        }

    def _checked(self, name: str, asked: da.Array, found: np.ndarray) -> np.ndarray:
        """Return rows that were computed, which have to be what the array says of them."""
        field = self.fields[name]
        if found.shape != asked.shape or found.dtype.newbyteorder("=") != field.dtype:
            raise SourceError(
                f"{name!r} was computed as {found.dtype} of shape {found.shape}, and Dask takes it "
                f"for {asked.dtype} of shape {asked.shape}. Give map_blocks(...) the dtype and the "
                "chunks of what it returns."
            )
        return found.astype(field.dtype, copy=False)

    def _span(self, rows: slice | np.ndarray) -> str:
        if isinstance(rows, slice):
            first, stop, _ = rows.indices(self.n_rows)
        else:
            first, stop = (int(rows[0]), int(rows[-1]) + 1) if rows.size else (0, 0)
        chunks = (
            f"chunks {_chunk(array, first)} to {_chunk(array, stop - 1)} of {name!r}"
            for name, array in self._arrays.items()
        )
        return f"rows {first:,} to {stop - 1:,} ({', '.join(chunks)})"

    def where(self, row: int) -> str:
        """Return the row, and the chunks that it lies in."""
        chunks = (f"chunk {_chunk(x, row)} of {name!r}" for name, x in self._arrays.items())
        return f"row {row:,}, {' and '.join(chunks)}"

    def __getstate__(self) -> dict:
        return self.__dict__ | {"_address": address_in_use() or self._address}


def _chunk(array: da.Array, row: int) -> int:
    return int(np.searchsorted(np.cumsum(array.chunks[0]), row, side="right"))


def _require_known(name: str, array: Any) -> None:
    if not isinstance(array, da.Array):
        raise SettingError(
            f"from_dask({name}=...) is a {type(array).__name__}. Give an array of Dask; of a data "
            "frame, that is df.to_dask_array(lengths=True)."
        )
    if not array.ndim:
        raise SettingError(f"from_dask({name}=...) is one number. Give an array with rows.")
    if np.isnan(array.shape).any():
        raise SettingError(
            f"from_dask({name}=...) has chunks of unknown length. Call "
            f"{name}.compute_chunk_sizes() before."
        )
