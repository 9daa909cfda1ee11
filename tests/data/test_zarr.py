import os
import pickle

import numpy as np
import pytest
import zarr
from zarr.core.sync import sync

from data.stored_rows import N, arrays, assert_same, assert_same_from_two_threads
from pymc_minibatch_mh.data import zarr_storage
from pymc_minibatch_mh.data.zarr_storage import ZarrStorage
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.likelihood.stored import Rows

#: Chunks, and settings of the array: X in two columns of chunks, small chunks, shards.
LAYOUTS = {
    "large chunks": ({"X": (6_000, 2), "t": (4_500,), "y": (N,), "on": (7_000,)}, {}),
    "small chunks": ({"X": (250, 3), "t": (400,), "y": (999,), "on": (200,)}, {}),
    "shards": (
        {"X": (500, 3), "t": (250,), "y": (1_000,), "on": (2_000,)},
        {"X": (5_000, 3), "t": (10_000,), "y": (4_000,), "on": (6_000,)},
    ),
}


def written(store, chunks, shards=None, **settings):
    group = zarr.open_group(store, mode="w", zarr_format=settings.pop("zarr_format", 3))
    for name, values in arrays().items():
        array = group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=chunks[name],
            shards=(shards or {}).get(name),
            config={"write_empty_chunks": True},
            **settings,
        )
        array[:] = values
    return group


@pytest.fixture
def folder(tmp_path):
    """Return the path of a group with chunks of some thousand rows."""
    written(tmp_path / "rows.zarr", LAYOUTS["large chunks"][0])
    return tmp_path / "rows.zarr"


@pytest.mark.parametrize(("chunks", "shards"), LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("room", [None, 0], ids=["kept", "drawn from small chunks"])
def test_rows_are_those_of_the_arrays(tmp_path, monkeypatch, chunks, shards, room):
    if room is not None:
        monkeypatch.setattr(zarr_storage, "ROOM", room)
    written(tmp_path / "rows.zarr", chunks, shards)
    storage = Rows.from_zarr(tmp_path / "rows.zarr", list(arrays())).storage
    assert_same(storage, arrays())
    assert_same_from_two_threads(storage, arrays())


def test_older_files_and_those_in_memory_are_read(tmp_path):
    chunks = LAYOUTS["large chunks"][0]
    written(tmp_path / "old.zarr", chunks, zarr_format=2)
    names = list(arrays())
    assert_same(ZarrStorage(tmp_path / "old.zarr", names), arrays())
    assert_same(ZarrStorage(written(zarr.storage.MemoryStore(), chunks), names), arrays())


def test_arrays_are_named_as_asked(folder):
    found = Rows.from_zarr(folder, {"design": "X"}).storage
    assert list(found.fields) == ["design"]
    found = Rows.from_zarr({"a": folder / "t", "b": zarr.open(folder / "y", mode="r")}).storage
    np.testing.assert_array_equal(found.read(["b"], slice(None))["b"], arrays()["y"])
    assert sorted(Rows.from_zarr(zarr.open_group(folder, mode="r")).names) == sorted(arrays())


def test_a_chunk_is_decoded_once_for_all_rows_in_it(folder, monkeypatch):
    decoded = []
    decode = ZarrStorage._decoded
    monkeypatch.setattr(
        ZarrStorage,
        "_decoded",
        lambda s, n, r, f: (decoded.append((n, r.start)), decode(s, n, r, f))[1],
    )
    storage = ZarrStorage(folder, ["X"])
    rows = np.random.default_rng(1).integers(0, N, 5_000)
    for _ in range(3):
        storage.read(["X"], rows)
    for first in range(0, N, 500):
        storage.read(["X"], slice(first, first + 500))
    assert sorted(decoded) == [("X", first) for first in range(0, N, 6_000)]


def test_a_pickle_holds_no_rows(folder):
    storage = ZarrStorage(folder)
    storage.read(["X"], slice(None))
    assert len(pickle.dumps(storage)) < 20_000


def shortened(path):
    os.truncate(path, 50)


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


FAULTS = {
    "missing": (lambda path: path.unlink(), "is no more"),
    "shortened": (shortened, "50 bytes"),
    "written": (flipped, "was written to"),
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("kept", [False, True], ids=["not read before", "read before"])
def test_a_chunk_that_changes_is_named(folder, fault, message, kept):
    storage = ZarrStorage(folder)
    if kept:
        storage.read(["X"], slice(None))
    fault(folder / "X" / "c" / "1" / "0")
    again = pickle.loads(pickle.dumps(storage))
    for one in (storage, again):
        for rows in (slice(5_000, 7_000), np.array([3, 6_500])):
            with pytest.raises(SourceError, match=rf"X/c/1/0.*{message}"):
                one.read(["X"], rows)
    # The other chunks are what they were.
    np.testing.assert_array_equal(storage.read(["X"], slice(0, 50))["X"], arrays()["X"][:50])


def test_a_chunk_that_is_missing_is_not_read_as_zeros(folder):
    (folder / "t" / "c" / "2").unlink()
    with pytest.raises(SourceError, match=r"/t has no chunk 't/c/2', .* as 0\.0.*missing_are_fill"):
        Rows.from_zarr(folder)
    found = Rows.from_zarr(folder, missing_are_fill=True).storage
    assert not found.read(["t"], slice(9_000, 13_500))["t"].any()


def headless(path):
    path.write_bytes(b"none" + path.read_bytes()[4:])


@pytest.mark.parametrize("fault", [shortened, headless])
def test_a_chunk_that_cannot_be_decoded_is_named(folder, fault):
    fault(folder / "X" / "c" / "1" / "1")
    storage = ZarrStorage(folder)
    assert "chunk 1 of the array" in storage.where(6_100)
    with pytest.raises(SourceError, match=r"rows 6,000 to 11,999 of .*X, chunks 1 to 1, cannot"):
        storage.read(["X"], np.array([6_100]))


def test_a_chunk_in_memory_that_is_gone_is_named():
    group = written(zarr.storage.MemoryStore(), LAYOUTS["large chunks"][0])
    storage = ZarrStorage(group)
    del group.store._store_dict["t/c/1"]
    with pytest.raises(SourceError, match=r"t/c/1 is no more"):
        storage.read(["t"], np.array([5_000]))


def test_a_remote_chunk_that_is_gone_is_named():
    store = zarr.storage.FsspecStore.from_url("memory://test-of-zarr-rows")
    storage = ZarrStorage(written(store, LAYOUTS["large chunks"][0]), list(arrays()))
    assert_same(storage, arrays())
    sync(store.delete("t/c/1"))
    again = pickle.loads(pickle.dumps(storage))
    np.testing.assert_array_equal(again.read(["t"], slice(0, 9))["t"], arrays()["t"][:9])
    with pytest.raises(SourceError, match=r"t/c/1 is no more"):
        again.read(["t"], np.array([5_000]))


def test_stamps_tell_other_contents(folder):
    before = ZarrStorage(folder).stamp
    assert ZarrStorage(folder).stamp == before
    assert ZarrStorage(folder, ["X", "t"]).stamp != before
    path = folder / "t" / "c" / "0"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert ZarrStorage(folder).stamp != before


def group_of(tmp_path, **given):
    group = zarr.open_group(tmp_path / "own.zarr", mode="w")
    for name, values in given.items():
        array = group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=tuple(max(n, 1) for n in values.shape),
            config={"write_empty_chunks": True},
        )
        if values.size:
            array[...] = values
    return group


REFUSED = {
    "no arrays": ({}, "has no arrays"),
    "lengths": ({"X": np.ones(3), "y": np.ones(4)}, "y has 4 rows, and the array .*X has 3"),
    "no rows": ({"X": np.ones((0, 3))}, "X has no rows"),
    "text": ({"X": np.array(["a", "b"])}, "X has type <U1"),
    "times": ({"X": np.array(["2020-01-01"], dtype="M8[s]")}, "X has type datetime64"),
    "float16": ({"X": np.ones(3, dtype="f2")}, "X has type float16"),
    "one number": ({"X": np.array(1.0)}, "X is one number"),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.filterwarnings("ignore:The data type:Warning")
def test_what_is_no_array_of_rows_is_refused(tmp_path, given, message):
    group_of(tmp_path, **given)
    with pytest.raises(SettingError, match=message):
        Rows.from_zarr(tmp_path / "own.zarr")


def test_packed_numbers_are_refused(tmp_path):
    group_of(tmp_path, X=np.arange(5))["X"].attrs["scale_factor"] = 0.1
    with pytest.raises(SettingError, match="is packed, by its attribute 'scale_factor'"):
        Rows.from_zarr(tmp_path / "own.zarr")


def test_what_is_no_group_is_refused(folder, tmp_path):
    with pytest.raises(SourceError, match="nothing cannot be opened by Zarr"):
        Rows.from_zarr(tmp_path / "nothing")
    with pytest.raises(SettingError, match=r"is one array.*Rows.from_zarr\(\{'X': "):
        Rows.from_zarr(folder / "X")
    with pytest.raises(SettingError, match=r"'z' names no array .* Choose from"):
        Rows.from_zarr(folder, ["z"])
    with pytest.raises(SettingError, match="is one text"):
        Rows.from_zarr(folder, "X")
    with pytest.raises(SettingError, match="is given a int"):
        Rows.from_zarr(3)
    with pytest.raises(SettingError, match="is no array of Zarr"):
        Rows.from_zarr({"X": folder})
