"""Rows of Parquet files, with a cache of decoded row groups."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from pymc_minibatch_mh.data.arrays import native_type, require_names
from pymc_minibatch_mh.data.chunk_cache import MIN_CACHE_BYTES, ChunkCache, gather_rows
from pymc_minibatch_mh.data.files import SourceFile
from pymc_minibatch_mh.data.source import Field
from pymc_minibatch_mh.errors import SettingError, SourceError

#: A file, several in order, a folder of files, or a dataset.
type Source = str | Path | Sequence[str | Path] | ds.Dataset
#: Unsupported Arrow types, with remedies.
_UNSUPPORTED_TYPES = (
    (pa.types.is_dictionary, "Store the numbers of its categories."),
    (pa.types.is_decimal, "Cast it to float64 before it is written."),
    (pa.types.is_temporal, "Store a number, such as the seconds since a date, as float64."),
    (
        pa.types.is_nested,
        "Store each of its numbers as a column, and name these as a list, or all of them as a "
        "fixed_size_list of numbers.",
    ),
)


class _Group(NamedTuple):
    """Row group: its file, its number in the file, and its number of rows."""

    path: str
    number: int
    rows: int


class ParquetStorage:
    """Columns of Parquet files, as vectors or combined as matrices: see :meth:`Rows.from_parquet`.

    A pickle refers to the files and to their sizes and times.
    """

    def __init__(
        self, source: Source, columns: Mapping[str, str | Sequence[str]] | None = None
    ) -> None:
        dataset = _dataset_of(source)
        fragments = _fragments_of(dataset, source)
        self._filesystem: Any = fragments[0].filesystem
        self._metadata: dict[str, Any] = {}
        self._files: dict[str, SourceFile] = {}
        self._groups: list[_Group] = []
        self._columns = _column_names(columns, dataset.schema)
        self._types = {
            name: _type_of(dataset.schema, name)
            for names in self._columns.values()
            for name in names
        }
        for fragment in fragments:
            self._add_file(fragment)
        self._edges = np.cumsum([0, *(group.rows for group in self._groups)], dtype=np.int64)
        self.n_rows = int(self._edges[-1])
        if not self.n_rows:
            raise SettingError(f"{_short_name(source)} has no rows. Give files with at least one.")
        self._matrices = {
            name
            for name, own in self._columns.items()
            if (columns and not isinstance(columns[name], str))
            or any(pa.types.is_fixed_size_list(self._types[column]) for column in own)
        }
        self.fields = {name: self._column_field(name) for name in self._columns}
        self.stamp = self._compute_stamp()
        # Room for two row groups of every array: two threads read, and each may need one.
        row = sum(field.itemsize for field in self.fields.values())
        largest = max(group.rows for group in self._groups)
        self._parts = ChunkCache(max(MIN_CACHE_BYTES, 2 * row * largest))

    def _add_file(self, fragment: Any) -> None:
        """Check a file, and add its row groups."""
        path = fragment.path
        file = _file_state(self._filesystem, path)
        if file is None:
            raise SourceError(f"there is no file {path}. Give paths of Parquet files.")
        try:
            metadata, schema = fragment.metadata, fragment.physical_schema
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                f"{path}, {file.size:,} bytes, is not a complete Parquet file: {error}. Write it "
                "again."
            ) from error
        for name, expected in self._types.items():
            found = _type_of(schema, name, path)
            if found != expected:
                raise SettingError(
                    f"the column {name!r} is {found} in {path} and {expected} in the first file. "
                    "Write all files with one type."
                )
        self._files[path], self._metadata[path] = file, metadata
        for group in fragment.row_groups:
            self._require_full(path, metadata.row_group(group.id), group.id)
            if group.num_rows:
                self._groups.append(_Group(path, group.id, group.num_rows))

    def _require_full(self, path: str, group: Any, number: int) -> None:
        """Raise an error for columns with empty entries according to the file's statistics."""
        for k in range(group.num_columns):
            column = group.column(k)
            nulls = column.statistics.null_count if column.statistics is not None else 0
            if column.path_in_schema in self._types and nulls:
                raise SourceError(
                    f"the column {column.path_in_schema!r} has {nulls:,} empty entries in row "
                    f"group {number} of {path}. Fill or drop these rows before the file is written."
                )

    def _column_field(self, name: str) -> Field:
        names = self._columns[name]
        types = [self._types[column] for column in names]
        dtype = np.result_type(*(_entry_type(one).to_pandas_dtype() for one in types))
        width = sum(_entries_per_row(one) for one in types)
        return Field(
            native_type(f"{name!r}, the columns {names},", np.dtype(dtype)),
            (width,) if name in self._matrices else (),
        )

    def _compute_stamp(self) -> str:
        """Digest of the columns, and of the files' sizes and times."""
        found = hashlib.blake2b(f"{self._columns} {self._types}".encode(), digest_size=16)
        for path, file in self._files.items():
            found.update(f"{path} {file.size} {file.changed}".encode())
        found.update(str([group.number for group in self._groups]).encode())
        return found.hexdigest()

    @property
    def reads_few_quickly(self) -> bool:
        """Whether the cache has room for all row groups, so that reading a few rows is fast."""
        return self._parts.hold_all(self.fields, self.n_rows)

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Selected rows; SourceError if a file is missing, changed, broken or has empty cells."""
        found, seen = {}, set[str]()

        def chunk_of_group(name: str, number: int) -> np.ndarray:
            path = self._groups[number].path
            if path not in seen:
                self._files[path].require_same(_file_state(self._filesystem, path))
                seen.add(path)
            return self._parts.get((name, number), partial(self._decode_group, name, number))

        for name in names:
            field = self.fields[name]
            empty = np.empty((0, *field.shape), dtype=field.dtype)
            found[name] = gather_rows(rows, self._edges, empty, partial(chunk_of_group, name))
        return found

    def _decode_group(self, name: str, number: int) -> np.ndarray:
        path, group, n_rows = self._groups[number]
        columns = self._columns[name]
        try:
            table = self._read_group(path, group, columns)
        except Exception as error:
            self._files[path].require_same(_file_state(self._filesystem, path))
            raise SourceError(
                f"{self._group_name(number)} cannot be decoded: {error}. Write the file again."
            ) from error
        if table.num_rows != n_rows:
            raise SourceError(f"{self._group_name(number)} holds {table.num_rows:,} rows instead.")
        parts = [
            self._column_numbers(column, table.column(column).combine_chunks(), number)
            for column in columns
        ]
        found = np.concatenate(parts, axis=1, dtype=self.fields[name].dtype, casting="unsafe")
        return found if name in self._matrices else found[:, 0]

    def _column_numbers(self, column: str, values: Any, number: int) -> np.ndarray:
        """Values of a column in row group `number`, shape (rows, width); SourceError for null."""
        width, inside = 1, values
        if pa.types.is_fixed_size_list(values.type) and not values.null_count:
            width, inside = values.type.list_size, values.flatten()
        if inside.null_count:
            empty = int(np.argmax(inside.is_null().to_numpy(zero_copy_only=False)))
            row = int(self._edges[number]) + empty // width
            raise SourceError(
                f"the column {column!r} is empty in {self.where(row)}. Fill or drop such rows "
                "before the file is written."
            )
        return inside.to_numpy(zero_copy_only=False).reshape(len(values), width)

    def _read_group(self, path: str, group: int, columns: Sequence[str]) -> Any:
        # Each read opens the file separately, so that threads do not wait for each other.
        with self._filesystem.open_input_file(path) as file:
            opened = pq.ParquetFile(
                file, metadata=self._metadata.get(path), page_checksum_verification=True
            )
            self._metadata[path] = opened.metadata
            return opened.read_row_group(group, columns=list(columns), use_threads=False)

    def _group_name(self, number: int) -> str:
        first, stop = self._edges[number], self._edges[number + 1]
        path, group, _ = self._groups[number]
        return f"row group {group} of {path}, rows {first:,} to {stop - 1:,},"

    def where(self, row: int) -> str:
        """Row number and its row group."""
        number = int(np.searchsorted(self._edges, row, side="right")) - 1
        path, group, _ = self._groups[number]
        inside = row - self._edges[number]
        return f"row {row:,}, which is row {inside:,} of row group {group} of {path}"

    def __getstate__(self) -> dict:
        return self.__dict__ | {"_metadata": {}}


def _short_name(source: Source) -> str:
    if isinstance(source, str | Path):
        return str(source)
    if isinstance(source, ds.Dataset):
        return "the dataset"
    return f"{source[0]} and {len(source) - 1} other files" if len(source) else "from_parquet([])"


def _dataset_of(source: Source) -> ds.Dataset:
    if isinstance(source, ds.Dataset):
        return source
    given: object = source
    if not isinstance(given, str | Path | Sequence):
        raise SettingError(
            f"from_parquet() got a {type(given).__name__}. Give one or several paths, a folder or "
            "a PyArrow dataset; pass data in memory to Rows(X=...)."
        )
    paths = str(source) if isinstance(source, str | Path) else [str(path) for path in source]
    try:
        return ds.dataset(paths, format="parquet")
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"{_short_name(source)} cannot be opened: {error}. Give paths of complete Parquet "
            f"files."
        ) from error


def _fragments_of(dataset: ds.Dataset, source: Source) -> list[Any]:
    try:
        fragments: list[Any] = list(dataset.get_fragments())
    except ValueError as error:
        raise SettingError(
            f"{_short_name(source)} is filtered. Write the filtered rows to a file."
        ) from error
    if not fragments:
        raise SettingError(
            f"{_short_name(source)} has no Parquet files. Give a folder with at least one."
        )
    if isinstance(source, str | Path):
        fragments.sort(key=lambda fragment: fragment.path)
    for fragment in fragments:
        if not isinstance(fragment, ds.ParquetFileFragment):
            raise SettingError(
                f"{_short_name(source)} holds a {type(fragment).__name__}. Write its rows to "
                "Parquet files; pass data in memory to Rows(X=...)."
            )
        if fragment.filesystem != fragments[0].filesystem:
            raise SettingError(f"{_short_name(source)} lies in several file systems. Use one.")
    return fragments


def _file_state(filesystem: Any, path: str) -> SourceFile | None:
    info = filesystem.get_file_info(path)
    return SourceFile(path, info.size, info.mtime_ns or 0) if info.is_file else None


def _column_names(
    columns: Mapping[str, str | Sequence[str]] | None, schema: pa.Schema
) -> dict[str, tuple[str, ...]]:
    if columns is None:
        return {name: (name,) for name in schema.names}
    if not isinstance(columns, Mapping):
        raise SettingError(
            f"columns={columns!r} does not say which array each column belongs to. Give a "
            "dictionary, such as {'X': ['x1', 'x2'], 'y': 'y'}."
        )
    require_names("from_parquet(columns={})", columns)
    named = {n: (c,) if isinstance(c, str) else tuple(c) for n, c in columns.items()}
    for name, asked in named.items():
        require_names(f"columns[{name!r}]", asked)
    return named


def _type_of(schema: pa.Schema, name: str, path: str = "the first file") -> pa.DataType:
    """Type of a column; SettingError if it is not numeric."""
    if schema.names.count(name) != 1:
        few = ", ".join(map(repr, schema.names[:20]))
        raise SettingError(f"{name!r} is not one column of {path}. Choose from {few}.")
    dtype = schema.field(name).type
    stored = _entry_type(dtype)
    for is_such, fix in _UNSUPPORTED_TYPES:
        if is_such(stored):
            raise SettingError(f"the column {name!r} of {path} has type {dtype}. {fix}")
    if not (
        pa.types.is_boolean(stored) or pa.types.is_integer(stored) or pa.types.is_floating(stored)
    ):
        raise SettingError(
            f"the column {name!r} of {path} has type {dtype}. Store real numbers: floats, integers "
            "or bools."
        )
    native_type(f"the column {name!r} of {path}", np.dtype(stored.to_pandas_dtype()))
    return dtype


def _entry_type(dtype: pa.DataType) -> pa.DataType:
    """Type of a column's entries; for a column of lists, the type of the lists' entries."""
    return dtype.value_type if pa.types.is_fixed_size_list(dtype) else dtype


def _entries_per_row(dtype: pa.DataType) -> int:
    """Number of entries of a column per row."""
    return dtype.list_size if pa.types.is_fixed_size_list(dtype) else 1
