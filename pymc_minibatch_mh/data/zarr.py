"""Rows of Zarr arrays, with a cache of decoded chunks.

Zarr reads a missing chunk as its fill value. Hence the files or store objects of all chunks are
checked when an array is opened and at every read.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore

from pymc_minibatch_mh.data.arrays import common_length, native_type, require_names
from pymc_minibatch_mh.data.chunk_cache import MIN_CACHE_BYTES, ChunkCache, gather_rows
from pymc_minibatch_mh.data.files import SourceFile, require_rows
from pymc_minibatch_mh.data.source import Field
from pymc_minibatch_mh.errors import MinibatchError, SettingError, SourceError

#: Codecs that convert numbers to bytes and back without running code from the files.
CODECS = {
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "cast_value", "crc32", "crc32c",
    "delta", "fixedscaleoffset", "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits",
    "pcodec", "quantize", "scale_offset", "sharding_indexed", "shuffle", "transpose", "zfpy",
    "zlib", "zstd",
}  # fmt: skip
#: Maximum number of parallel requests to a remote store.
PARALLEL_REQUESTS = 64


class ChunkObjects:
    """Chunks or shards in a store; SourceError if any is missing, unless `missing_are_fill`."""

    def __init__(self, array: zarr.Array, missing_are_fill: bool) -> None:
        self.store: Any = array.store_path.store
        self.where = str(array.store_path)
        shape = array.shards or array.chunks
        #: Number of rows in each object.
        self.rows = int(shape[0])
        grid = [-(-n // step) for n, step in zip(array.shape, shape, strict=True)]
        #: Number of objects that contain the same rows, side by side.
        self.wide = prod(grid[1:])
        metadata: Any = array.metadata
        self.keys = [
            f"{array.path}/{metadata.encode_chunk_key(place)}".lstrip("/")
            for place in product(*map(range, grid))
        ]
        self.found = self._look_up(self.keys)
        if not missing_are_fill and None in self.found:
            raise SourceError(
                f"{self.where} has no chunk {self.keys[self.found.index(None)]!r}, which Zarr "
                f"would read as {array.fill_value}. Write the array again with "
                "config={'write_empty_chunks': True}, or set missing_are_fill=True if that is "
                "intended."
            )

    @property
    def is_local(self) -> bool:
        """Whether the objects are local files, which are cheap to check."""
        return isinstance(self.store, LocalStore)

    @property
    def object_stamps(self) -> Iterable[str]:
        """Key, size and time of each object."""
        for key, file in zip(self.keys, self.found, strict=True):
            yield key if file is None else f"{key} {file.size} {file.changed}"

    def require_unchanged(self, rows: slice | np.ndarray) -> None:
        """Raise a SourceError if an object of some rows has changed."""
        if isinstance(rows, slice):
            lines: Iterable[int] = range(rows.start // self.rows, -(-rows.stop // self.rows))
        else:
            lines = np.unique(rows // self.rows).tolist()
        asked = [self.wide * line + across for line in lines for across in range(self.wide)]
        for one, now in zip(asked, self._look_up([self.keys[i] for i in asked]), strict=True):
            before = self.found[one]
            if before is not None:
                before.require_same(now)
            elif now is not None:
                raise SourceError(f"the chunk {now.path} was written after the array was opened.")

    def _look_up(self, keys: Sequence[str]) -> list[SourceFile | None]:
        if isinstance(self.store, LocalStore):
            return [SourceFile.if_any(Path(self.store.root) / key) for key in keys]
        return sync(_remote_objects(self.store, keys))


async def _remote_objects(store: Any, keys: Sequence[str]) -> list[SourceFile | None]:
    few = asyncio.Semaphore(PARALLEL_REQUESTS)

    async def look_up_object(key: str) -> SourceFile | None:
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

    return await asyncio.gather(*map(look_up_object, keys))


#: Minimum number of rows per decoded part: smaller chunks are combined.
MIN_PART_ROWS = 4096
#: An array, a group of arrays, or a location.
type Source = str | Path | zarr.Group | Mapping[str, str | Path | zarr.Array]


class ZarrStorage:
    """Arrays of Zarr, with rows on the first axis: see :meth:`Rows.from_zarr`.

    A pickle refers to the store and to the identities of its objects.
    """

    def __init__(
        self,
        source: Source,
        names: Sequence[str] | Mapping[str, str] | None = None,
        missing_are_fill: bool = False,
    ) -> None:
        try:
            self._arrays = _find_arrays(source, names)
        except MinibatchError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            # Exceptions of Zarr: missing or invalid files, and unknown codecs.
            raise SourceError(
                f"{source} cannot be opened by Zarr: {error}. Give the path of a group."
            ) from error
        require_names(f"the Zarr group {source}", self._arrays)
        for array in self._arrays.values():
            _require_plain(array)
        self.fields = {
            name: Field(native_type(_array_name(x), x.dtype), x.shape[1:])
            for name, x in self._arrays.items()
        }
        self.n_rows = common_length({_array_name(x): x.shape[0] for x in self._arrays.values()})
        self._objects = {n: ChunkObjects(x, missing_are_fill) for n, x in self._arrays.items()}
        self._edges = {}
        for name, array in self._arrays.items():
            step = array.chunks[0] * -(-MIN_PART_ROWS // array.chunks[0])
            self._edges[name] = np.append(np.arange(0, self.n_rows, step), self.n_rows)
        self.stamp = self._compute_stamp()
        # Room for two parts of every array: two threads read, and each may need one.
        largest = (self._edges[n][1] * field.itemsize for n, field in self.fields.items())
        self._parts = ChunkCache(max(MIN_CACHE_BYTES, 2 * int(sum(largest))))

    def _compute_stamp(self) -> str:
        """Digest of the metadata, and of sizes and times of the chunks' objects."""
        found = hashlib.blake2b(digest_size=16)
        for name, array in self._arrays.items():
            found.update(f"{name}: {_array_name(array)} {array.metadata.to_dict()}".encode())
            for stamp in self._objects[name].object_stamps:
                found.update(stamp.encode())
        return found.hexdigest()

    @property
    def reads_few_quickly(self) -> bool:
        """Whether the cache has room for all decoded parts, so that reading few rows is fast."""
        return self._parts.hold_all(self.fields, self.n_rows)

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Selected rows; SourceError if a chunk is missing, has changed or is broken."""
        if isinstance(rows, slice):
            first, stop, step = rows.indices(self.n_rows)
            rows = slice(first, max(first, stop)) if step == 1 else np.arange(first, stop, step)
        return {name: self._read_column(name, rows) for name in names}

    def _read_column(self, name: str, rows: slice | np.ndarray) -> np.ndarray:
        if isinstance(rows, np.ndarray) and self._few_rows_per_chunk(name):
            chosen, places = np.unique(rows, return_inverse=True)
            require_rows(chosen, self.n_rows)
            found = self._decode_rows(name, chosen, lambda array: array.oindex[chosen])[places]
        else:
            field = self.fields[name]
            empty = np.empty((0, *field.shape), dtype=field.dtype)
            found = gather_rows(rows, self._edges[name], empty, partial(self._decode_chunk, name))
        if self._objects[name].is_local:
            self._objects[name].require_unchanged(rows)
        return found

    def _few_rows_per_chunk(self, name: str) -> bool:
        """Whether decoding the chunks of a few rows costs less than caching all of them."""
        small = self._arrays[name].chunks[0] < MIN_PART_ROWS
        return small and self.n_rows * self.fields[name].itemsize > MIN_CACHE_BYTES

    def _decode_chunk(self, name: str, number: int) -> np.ndarray:
        rows = slice(int(self._edges[name][number]), int(self._edges[name][number + 1]))
        decode = partial(self._decode_rows, name, rows, lambda array: array[rows])
        return self._parts.get((name, number), decode)

    def _decode_rows(self, name: str, rows: slice | np.ndarray, read: Any) -> np.ndarray:
        array = self._arrays[name]
        try:
            found = read(array)
        except Exception as error:
            self._objects[name].require_unchanged(rows)
            bounds = (rows.start, rows.stop - 1) if isinstance(rows, slice) else rows[[0, -1]]
            raise SourceError(
                f"rows {bounds[0]:,} to {bounds[1]:,} of {_array_name(array)}, chunks "
                f"{bounds[0] // array.chunks[0]} to {bounds[1] // array.chunks[0]}, cannot be "
                f"decoded: {error}. Write them again."
            ) from error
        # Zarr silently reads a missing chunk as its fill value: check remote objects after reading.
        if not self._objects[name].is_local:
            self._objects[name].require_unchanged(rows)
        return np.ascontiguousarray(found, dtype=self.fields[name].dtype)

    def where(self, row: int) -> str:
        """Row number and its chunks."""
        chunks = (f"chunk {row // x.chunks[0]} of {_array_name(x)}" for x in self._arrays.values())
        return f"row {row:,}, {' and '.join(chunks)}"


def _array_name(array: zarr.Array) -> str:
    return f"the array {array.store_path}"


def _find_arrays(
    source: Source, names: Sequence[str] | Mapping[str, str] | None
) -> dict[str, zarr.Array]:
    if isinstance(source, Mapping):
        return {name: _open_array(x) for name, x in source.items()}
    group = source if isinstance(source, zarr.Group) else _open_source(source)
    if not isinstance(group, zarr.Group):
        raise SettingError(
            f"{source} is a single array. Give its group, or name it: Rows.from_zarr({{'X': "
            f"{str(source)!r}}})."
        )
    if names is None:
        names = sorted(group.array_keys())
    if isinstance(names, str):
        raise SettingError(f"names={names!r} is a string. Give a sequence, such as [{names!r}].")
    paths = names if isinstance(names, Mapping) else dict(zip(names, names, strict=True))
    return {name: _group_member(group, path) for name, path in paths.items()}


def _group_member(group: zarr.Group, path: str) -> zarr.Array:
    found = group.get(path)
    if not isinstance(found, zarr.Array):
        raise SettingError(
            f"{path!r} names no array of {group.store_path}. Choose from "
            f"{sorted(group.array_keys())}."
        )
    return found


def _open_array(source: str | Path | zarr.Array) -> zarr.Array:
    found = source if isinstance(source, zarr.Array) else _open_source(source)
    if not isinstance(found, zarr.Array):
        raise SettingError(f"{source} is not a Zarr array. Give an array or its path.")
    return found


def _open_source(source: str | Path) -> zarr.Array | zarr.Group:
    if not isinstance(source, str | Path):
        raise SettingError(
            f"from_zarr() got a {type(source).__name__}. Give a group, its path, or name -> array."
        )
    return zarr.open(str(source), mode="r")


def _codec_names(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the codecs of an array in either format, shards included."""
    for codec in (*(metadata.get("filters") or ()), metadata.get("compressor")):
        if codec is not None:
            yield str(codec["id"])
    for codec in (*metadata.get("codecs", ()), *metadata.get("index_codecs", ())):
        yield str(codec["name"])
        yield from _codec_names(codec.get("configuration", {}))


def _require_plain(array: zarr.Array) -> None:
    """Raise an error for scalars, arrays packed by scale or offset, and codecs that run code."""
    for codec in _codec_names(array.metadata.to_dict()):
        if codec.removeprefix("numcodecs.") not in CODECS:
            raise SourceError(
                f"{_array_name(array)} is decoded by {codec!r}, which might run code from the "
                "file. Write it again with another codec, such as 'zstd'."
            )
    if not array.ndim:
        raise SettingError(
            f"{_array_name(array)} is a single number. Name the arrays with rows: names=['X', 'y']."
        )
    packed = {"scale_factor", "add_offset"} & set(array.attrs)
    if packed:
        raise SettingError(
            f"{_array_name(array)} is packed, as its attribute shows: {min(packed)!r}. Store its "
            "values as float32."
        )
