import os
from datetime import date, datetime
from decimal import Decimal
from tempfile import NamedTemporaryFile

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from data.stored_rows import COLUMNS, GROUP, PART, N, arrays, parquet_files, table
from pymc_minibatch_mh.data.parquet import ParquetStorage
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.rows import Rows


@pytest.fixture
def folder(tmp_path):
    """Return a folder of four files with four row groups each."""
    path = tmp_path / "rows"
    path.mkdir()
    parquet_files(path)
    return path


def test_files_are_read_in_the_order_that_they_are_given_in(folder):
    found = Rows.from_parquet([folder / "part-2.parquet", folder / "part-0.parquet"], {"t": "t"})
    t = arrays()["t"]
    expected = np.concatenate([t[2 * PART : 3 * PART], t[:PART]])
    np.testing.assert_array_equal(found.storage.read(["t"], slice(None))["t"], expected)


def lists(folder, values, kind, **options):
    """Write a column of lists into two files, and return where they are."""
    half = len(values) // 2
    for k, part in enumerate((values[:half], values[half:])):
        column = pa.array(part, type=kind)
        pq.write_table(
            pa.table({"x": column, "y": np.arange(len(part))}), folder / f"{k}.parquet", **options
        )
    return folder


@pytest.mark.parametrize("written", [pa.float32(), pa.int16(), pa.bool_()])
def test_a_list_of_each_row_is_a_matrix(tmp_path, written):
    values = (np.arange(60).reshape(20, 3) % 7 > 2) * 1
    listed = values.astype(bool).tolist() if pa.types.is_boolean(written) else values.tolist()
    folder = lists(tmp_path, listed, pa.list_(written, 3), row_group_size=4)
    storage = ParquetStorage(folder, {"X": "x", "y": "y", "both": ["y", "x"]})
    assert storage.fields["X"].shape == (3,)
    assert storage.fields["X"].dtype == written.to_pandas_dtype()
    rows = np.array([17, 3, 9, 3, 10])
    found = storage.read(["X", "both"], rows)
    np.testing.assert_array_equal(found["X"], values[rows])
    np.testing.assert_array_equal(found["both"], np.c_[rows % 10, values[rows]])
    np.testing.assert_array_equal(storage.read(["X"], slice(8, 14))["X"], values[8:14])
    assert ParquetStorage(folder).fields["x"].shape == (3,)


@pytest.mark.parametrize("empty", [None, [1.0, None, 2.0]])
def test_an_empty_entry_of_a_list_is_named(tmp_path, empty):
    listed = [[0.0, 1.0, 2.0]] * 20
    listed[13] = empty
    storage = ParquetStorage(lists(tmp_path, listed, pa.list_(pa.float64(), 3)), {"X": "x"})
    with pytest.raises(SourceError, match=r"'x' is empty in row 13, which is row 3 of row group 0"):
        storage.read(["X"], slice(10, 20))


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.list_(pa.list_(pa.float64(), 1), 3)])
def test_lists_of_other_kinds_are_refused(tmp_path, kind):
    inner = [1.0] if pa.types.is_nested(kind.value_type) else 1.0
    folder = lists(tmp_path, [[inner] * 3] * 4, kind)
    with pytest.raises(
        SettingError, match=r"'x' of .* has type .*or all of them as a fixed_size_l"
    ):
        ParquetStorage(folder, {"X": "x"})


def test_pages_that_cannot_be_decoded_are_named(folder):
    path = folder / "part-1.parquet"
    place = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[place : place + 30] = bytes(30)
    path.write_bytes(content)
    storage = ParquetStorage(folder, COLUMNS)
    row = PART + 2 * GROUP + 17
    assert storage.where(row) == f"row {row:,}, which is row 17 of row group 2 of {path}"
    with pytest.raises(
        SourceError, match=rf"row group 2 of {path}, rows 8,000 to 9,499, cannot be"
    ):
        storage.read(["X"], np.array([row]))


def test_numbers_that_changed_on_disk_are_told_by_the_checksum_of_their_page(tmp_path):
    """A changed byte among plain numbers decodes as well as any other."""
    path = tmp_path / "rows.parquet"
    plain = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    t = np.linspace(0.0, 1.0, 1_000)
    pq.write_table(pa.table({"t": t}), path, **plain)
    content = bytearray(path.read_bytes())
    content[content.index(t[500].tobytes()) + 6] ^= 1
    path.write_bytes(content)
    storage = ParquetStorage(path)
    with pytest.raises(SourceError, match="rows 0 to 999, cannot be"):
        storage.read(["t"], np.array([999]))


@pytest.mark.parametrize("statistics", [True, False])
def test_an_empty_entry_is_named(folder, statistics):
    path = folder / "part-3.parquet"
    x1 = pa.array([None if k == 4_000 else 1.0 for k in range(PART)], pa.float32())
    part = table(slice(3 * PART, None), x1=x1)
    pq.write_table(part, path, row_group_size=GROUP, write_statistics=statistics)
    if statistics:
        with pytest.raises(
            SourceError, match=rf"'x1' has 1 empty entries in row group 2 of {path}"
        ):
            Rows.from_parquet(folder, COLUMNS)
    else:
        storage = Rows.from_parquet(folder, COLUMNS).storage
        where = rf"'x1' is empty in row 19,000, which is row 1,000 of row group 2 of {path}"
        storage.read(["X"], slice(N - 10, N - 5))
        with pytest.raises(SourceError, match=where):
            storage.read(["X"], slice(18_999, 19_001))
    assert Rows.from_parquet(folder, {"t": "t"}).n_rows == N


def test_empty_entries_are_not_read_as_nan():
    with NamedTemporaryFile() as file:
        empty = pa.table({"y": pa.array([1.0, None, 3.0])})
        pq.write_table(empty, file.name, write_statistics=False)
        with pytest.raises(
            SourceError, match=r"'y' is empty in row 1, which is row 1 of row group 0"
        ):
            ParquetStorage(file.name).read(["y"], slice(0, 1))


def test_files_of_different_columns_are_refused(folder):
    path = folder / "part-2.parquet"
    whole = table(slice(2 * PART, 3 * PART))
    pq.write_table(whole.set_column(3, "t", whole["t"].cast(pa.float32())), path)
    with pytest.raises(SettingError, match=rf"'t' is float in {path} and double in the first file"):
        Rows.from_parquet(folder, COLUMNS)
    pq.write_table(whole.drop_columns(["t"]), path)
    with pytest.raises(SettingError, match=rf"'t' is not one column of {path}"):
        Rows.from_parquet(folder, COLUMNS)


VALUES = {
    "text": (["a", "b"], "type string. Store real numbers"),
    "dictionary": (pa.array(["a", "b"]).dictionary_encode(), "Store the numbers of its categories"),
    "decimal": ([Decimal("1.5"), Decimal("2.5")], "Cast it to float64"),
    "timestamp": ([datetime(2020, 1, 1)] * 2, "such as the seconds since a date"),
    "date": ([date(2020, 1, 1)] * 2, "such as the seconds since a date"),
    "list": ([[1.0], [2.0]], "Store each of its numbers as a column"),
    "float16": (np.ones(2, dtype="f2"), "has type float16, .* Store it as float32"),
}


@pytest.mark.parametrize(("values", "message"), VALUES.values(), ids=VALUES)
def test_columns_that_are_no_numbers_are_refused(tmp_path, values, message):
    path = tmp_path / "own.parquet"
    pq.write_table(pa.table({"x": values, "n": [1, 2]}), path)
    with pytest.raises(SettingError, match=rf"column 'x' .*{message}"):
        Rows.from_parquet(path)
    assert Rows.from_parquet(path, {"n": "n"}).n_rows == 2


def test_sources_without_rows_are_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(SettingError, match="has no Parquet files"):
        Rows.from_parquet(tmp_path / "folder")
    pq.write_table(table(slice(0, 0)), tmp_path / "empty.parquet")
    with pytest.raises(SettingError, match=r"empty.parquet has no rows"):
        Rows.from_parquet(tmp_path / "empty.parquet", COLUMNS)
    with pytest.raises(SettingError, match=r"from_parquet\(\[\]\)"):
        Rows.from_parquet([])


def test_what_is_no_parquet_is_refused(folder, tmp_path):
    with pytest.raises(SourceError, match="nothing cannot be opened"):
        Rows.from_parquet(tmp_path / "nothing")
    with pytest.raises(SourceError, match="nothing and 1 other files cannot be opened"):
        Rows.from_parquet([tmp_path / "nothing", folder / "part-0.parquet"])
    os.truncate(folder / "part-3.parquet", 900)
    with pytest.raises(SourceError, match=r"part-3.parquet, .* is not a complete Parquet file"):
        Rows.from_parquet(folder, COLUMNS)
    with pytest.raises(SettingError, match="Write its rows to Parquet files"):
        Rows.from_parquet(ds.dataset(table()))
    with pytest.raises(SettingError, match=r"got a Table.*Rows\(X=...\)"):
        Rows.from_parquet(table())
    with pytest.raises(SettingError, match="is filtered"):
        Rows.from_parquet(ds.dataset(folder).filter(ds.field("y") > 0))


def test_columns_that_are_not_there_are_refused(folder):
    with pytest.raises(SettingError, match=r"'z' is not one column .* Choose from 'x1', 'x2'"):
        Rows.from_parquet(folder, {"X": ["x1", "z"]})
    with pytest.raises(SettingError, match=r"columns=\{\}"):
        Rows.from_parquet(folder, {})
    with pytest.raises(SettingError, match=r"columns=\['x1', 'y'\] does not say .* dictionary"):
        Rows.from_parquet(folder, ["x1", "y"])
    with pytest.raises(SettingError, match=r"columns\['X'\]"):
        Rows.from_parquet(folder, {"X": []})
