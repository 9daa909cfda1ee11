"""The contract of storages, asked of each kind, and the draws on each."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import dask
import numpy as np
import pytest

from data.stored_rows import COLUMNS, PART, REQUESTS, STORAGES, N, arrays
from pymc_minibatch_mh.data import zarr as zarr_storage
from pymc_minibatch_mh.data.arrays import native_type
from pymc_minibatch_mh.data.chunk_cache import ChunkCache, gather_rows
from pymc_minibatch_mh.data.files import SourceFile
from pymc_minibatch_mh.data.parquet import ParquetStorage
from pymc_minibatch_mh.data.zarr import ZarrStorage
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.rows import Rows


def in_folder(tmp_path, name):
    """Return a storage in a folder of its own, and the folder."""
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    return STORAGES[name](folder), folder


def assert_read(storage, rows, expected):
    found = storage.read(list(expected), rows)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values[rows], strict=True)


@pytest.mark.parametrize(
    "room", [zarr_storage.MIN_CACHE_BYTES, 0], ids=["kept", "drawn from small chunks"]
)
@pytest.mark.parametrize("kind", STORAGES)
def test_rows_are_those_of_the_arrays(kind, room, tmp_path):
    """As a block, by numbers, from a pickle, and in two threads at once, as passes ask for them."""
    expected = arrays()
    with pytest.MonkeyPatch.context() as patch, dask.config.set(scheduler="threads"):
        patch.setattr(zarr_storage, "MIN_CACHE_BYTES", room)
        storage, _ = in_folder(tmp_path, kind)
        for one in (storage, pickle.loads(pickle.dumps(storage))):
            assert one.n_rows == N
            assert one.stamp == storage.stamp
            assert {name: (f.dtype, f.shape) for name, f in one.fields.items()} == {
                name: (x.dtype, x.shape[1:]) for name, x in expected.items()
            }
            for rows in REQUESTS.values():
                assert_read(one, rows, expected)
        rng = np.random.default_rng(4)
        asked = [slice(first, first + 1_500) for first in range(0, N, 700)]
        asked += [np.sort(rng.integers(0, N, 400)) for _ in range(20)]
        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(lambda rows: assert_read(storage, rows, expected) is None, asked))


#: Kind of files -> one of them, columns of the first 50 rows in others, and rows that need it.
FILES = {
    "files": ("t.npy", ["X"], slice(0, 1), np.array([3, 9])),
    "large chunks": ("X/c/1/0", ["X"], slice(5_000, 7_000), np.array([3, 6_500])),
    "row groups": ("part-1.parquet", ["X"], slice(PART - 5, PART + 5), np.array([3, PART + 7])),
}
#: Bytes that a pickle has at most: no rows are in it.
PICKLED = {"files": 2_000, "large chunks": 20_000, "row groups": 4_000}
FAULTS = {
    "missing": (lambda path: path.unlink(), "no longer exists"),
    "shortened": (lambda path: os.truncate(path, 50), "has 50 bytes, but had "),
    "written to": (lambda path: touched(path), "was written to after it was opened"),
}
#: What is said of files that are mapped anew, by the copy of a storage.
MAPPED = {"missing": "No such file", "shortened": "has 50 bytes, but .* are needed"}


def touched(path):
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_changes_is_named(kind, fault, read_before, tmp_path):
    storage, folder = in_folder(tmp_path, kind)
    name, elsewhere, *asked = FILES[kind]
    if read_before:
        storage.read(list(arrays()), slice(None))
    kept = pickle.dumps(storage)
    assert len(kept) < PICKLED[kind]
    change, message = FAULTS[fault]
    of_copy = MAPPED.get(fault, message) if kind == "files" else message
    change(folder / name)
    for rows in asked:
        with pytest.raises(SourceError, match=f"{name} {message}"):
            storage.read(["X", "t"], rows)
        with pytest.raises(SourceError, match=f"{name}.* {of_copy}"):
            pickle.loads(kept).read(["X", "t"], rows)
    # The others are what they were.
    assert_read(storage, slice(0, 50), {column: arrays()[column] for column in elsewhere})
    assert name in storage.where(3) or kind != "files"


@pytest.mark.parametrize(("kind", "parts"), [("large chunks", 4), ("row groups", 16)])
def test_a_part_is_decoded_once_for_all_rows_in_it(kind, parts, tmp_path, monkeypatch):
    get, decoded = ChunkCache.get, []

    def counted(self, key, decode):
        return get(self, key, lambda: (decoded.append(key), decode())[1])

    monkeypatch.setattr(ChunkCache, "get", counted)
    storage, _ = in_folder(tmp_path, kind)
    for _ in range(3):
        storage.read(["X"], np.random.default_rng(1).integers(0, N, 5_000))
    for first in range(0, N, 500):
        storage.read(["X"], slice(first, first + 500))
    assert len(decoded) == len(set(decoded)) == parts


@pytest.mark.parametrize(
    ("kind", "opened", "other"),
    [
        ("large chunks", ZarrStorage, lambda folder: ZarrStorage(folder, ["X", "t"])),
        (
            "row groups",
            lambda folder: ParquetStorage(folder, COLUMNS),
            lambda folder: ParquetStorage(folder, COLUMNS | {"t": "x1"}),
        ),
        (
            "files",
            lambda folder: Rows.from_npy(t=folder / "t.npy").storage,
            lambda folder: Rows.from_npy(t=folder / "y.npy").storage,
        ),
    ],
)
def test_stamps_tell_other_contents(kind, opened, other, tmp_path):
    _, folder = in_folder(tmp_path, kind)
    before = opened(folder).stamp
    assert opened(folder).stamp == before
    assert other(folder).stamp != before
    touched(folder / FILES[kind][0])
    assert opened(folder).stamp != before


def test_rows_are_gathered_from_their_parts():
    edges = np.array([0, 1, 700, 701, 9_000, N])
    for rows in REQUESTS.values():
        asked = []

        def part(number, asked=asked):
            asked.append(number)
            return np.arange(edges[number], edges[number + 1])

        found = gather_rows(rows, edges, np.empty(0, dtype=np.int64), part)
        np.testing.assert_array_equal(found, np.arange(N)[rows], strict=True)
        assert len(set(asked)) == len(asked)


def test_decoded_parts_are_dropped_when_there_is_no_room():
    parts, decoded = ChunkCache(3 * 80), []

    def part(key):
        decoded.append(key)
        return np.full(10, float(key))

    for key in [0, 1, 2, 0, 3, 0, 1]:
        assert parts.get(key, lambda key=key: part(key))[0] == key
        assert parts.nbytes <= 240
    # 1 was used longest ago when 3 came.
    assert decoded == [0, 1, 2, 3, 1]


def test_a_file_that_is_another_is_named():
    file = SourceFile("rows.npy", 100, 7)
    file.require_same(SourceFile("rows.npy", 100, 7))
    for found, message in [
        (None, "no longer exists"),
        (SourceFile("rows.npy", 1_050, 7), "has 1,050 bytes, but had 100"),
        (SourceFile("rows.npy", 100, 8), "was written to"),
    ]:
        with pytest.raises(SourceError, match=rf"rows.npy {message}"):
            file.require_same(found)


def test_types_that_compiled_code_reads_are_told_from_others():
    for name in ("f4", "f8", ">f8", "i1", "u8", "?"):
        assert native_type("X", np.dtype(name)) == np.dtype(name).newbyteorder("=")
    for name in ("f2", "g", "c8", "M8[s]", "U1", "O"):
        with pytest.raises(SettingError, match="X has type"):
            native_type("X", np.dtype(name))
