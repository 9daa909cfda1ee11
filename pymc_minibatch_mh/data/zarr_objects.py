"""The files, or objects of a store, that the chunks of a Zarr array lie in.

Zarr reads a chunk that is missing as its fill value. So that rows that are lost are not read as
zeros, the objects are looked at when the array is opened and wherever it is read.
"""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore

from pymc_minibatch_mh.data.files import SourceFile
from pymc_minibatch_mh.errors import SourceError

#: Objects of a remote store that are asked for at a time.
ASKED_AT_A_TIME = 64


class ChunkObjects:
    """What the chunks of one array lie in: one object per chunk, or per shard of chunks.

    Parameters
    ----------
    array
        The array.
    missing_are_fill
        Whether chunks that are missing when the array is opened hold the fill value.

    Raises
    ------
    SourceError
        If one is missing, and that is not what it says.
    """

    def __init__(self, array: zarr.Array, missing_are_fill: bool) -> None:
        self.store: Any = array.store_path.store
        self.where = str(array.store_path)
        shape = array.shards or array.chunks
        #: Rows of one line of objects.
        self.rows = int(shape[0])
        grid = [-(-n // step) for n, step in zip(array.shape, shape, strict=True)]
        #: Objects that hold the same rows.
        self.wide = prod(grid[1:])
        metadata: Any = array.metadata
        self.keys = [
            f"{array.path}/{metadata.encode_chunk_key(place)}".lstrip("/")
            for place in product(*map(range, grid))
        ]
        self.found = self._look(self.keys)
        if not missing_are_fill and None in self.found:
            raise SourceError(
                f"{self.where} has no chunk {self.keys[self.found.index(None)]!r}, which Zarr "
                f"would read as {array.fill_value}. Write the array again with "
                "config={'write_empty_chunks': True}, or set missing_are_fill=True if it is meant."
            )

    @property
    def local(self) -> bool:
        """Whether looking at an object costs no more than looking at a file."""
        return isinstance(self.store, LocalStore)

    @property
    def stamps(self) -> Iterable[str]:
        """What tells each object from others."""
        for key, file in zip(self.keys, self.found, strict=True):
            yield key if file is None else f"{key} {file.size} {file.changed}"

    def require_unchanged(self, rows: slice | np.ndarray) -> None:
        """Look again at the objects that hold some rows.

        Raises
        ------
        SourceError
            If one is missing or another.
        """
        if isinstance(rows, slice):
            lines: Iterable[int] = range(rows.start // self.rows, -(-rows.stop // self.rows))
        else:
            lines = np.unique(rows // self.rows).tolist()
        asked = [self.wide * line + across for line in lines for across in range(self.wide)]
        for one, now in zip(asked, self._look([self.keys[i] for i in asked]), strict=True):
            before = self.found[one]
            if before is not None:
                before.require_same(now)
            elif now is not None:
                raise SourceError(f"the chunk {now.path} was written after the array was opened.")

    def _look(self, keys: Sequence[str]) -> list[SourceFile | None]:
        if isinstance(self.store, LocalStore):
            return [_file(Path(self.store.root) / key) for key in keys]
        return sync(_objects(self.store, keys))


def _file(path: Path) -> SourceFile | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return SourceFile(str(path), found.st_size, found.st_mtime_ns)


async def _objects(store: Any, keys: Sequence[str]) -> list[SourceFile | None]:
    few = asyncio.Semaphore(ASKED_AT_A_TIME)

    async def look(key: str) -> SourceFile | None:
        async with few:
            try:
                if isinstance(store, FsspecStore):
                    info = await store.fs._info(f"{store.path}/{key}")
                    times = (info.get(name) for name in ("ETag", "etag", "mtime", "LastModified"))
                    changed = next((time for time in times if time), 0)
                    return SourceFile(f"{store}/{key}", int(info["size"] or 0), str(changed))
                return SourceFile(f"{store}/{key}", await store.getsize(key), 0)
            except FileNotFoundError:
                return None

    return await asyncio.gather(*map(look, keys))
