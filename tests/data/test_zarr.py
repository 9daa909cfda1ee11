import json
import os
import pickle
import warnings

import numpy as np
import pytest
import zarr
from zarr.core.sync import sync

from data.stored_rows import arrays, zarr_group, zarrs
from pymc_minibatch_mh.data.zarr import ZarrStorage
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.rows import Rows


@pytest.fixture
def folder(tmp_path):
    """Return the path of a group with chunks of some thousand rows."""
    zarr_group(tmp_path / "rows.zarr")
    return tmp_path / "rows.zarr"


def test_arrays_are_named_as_asked(folder):
    found = Rows.from_zarr(folder, {"design": "X"}).storage
    assert list(found.fields) == ["design"]
    found = Rows.from_zarr({"a": folder / "t", "b": zarr.open(folder / "y", mode="r")}).storage
    np.testing.assert_array_equal(found.read(["b"], slice(None))["b"], arrays()["y"])
    assert sorted(Rows.from_zarr(zarr.open_group(folder, mode="r")).names) == sorted(arrays())


def shortened(path):
    os.truncate(path, 50)


def test_a_chunk_that_is_missing_is_not_read_as_zeros(folder):
    (folder / "t" / "c" / "2").unlink()
    with pytest.raises(SourceError, match=r"/t has no chunk 't/c/2', .* as 0\.0.*missing_are_fill"):
        Rows.from_zarr(folder)
    found = Rows.from_zarr(folder, missing_are_fill=True).storage
    assert not found.read(["t"], slice(9_000, 13_500))["t"].any()


def test_a_missing_chunk_that_is_written_later_is_named(tmp_path):
    zarr_group(tmp_path / "rows.zarr")
    chunk = tmp_path / "rows.zarr" / "t" / "c" / "2"
    kept = chunk.read_bytes()
    chunk.unlink()
    storage = Rows.from_zarr(tmp_path / "rows.zarr", missing_are_fill=True).storage
    chunk.write_bytes(kept)
    with pytest.raises(SourceError, match="t/c/2 was written after the array was opened"):
        storage.read(["t"], slice(9_000, 13_500))


def headless(path):
    path.write_bytes(b"none" + path.read_bytes()[4:])


@pytest.mark.parametrize("fault", [shortened, headless])
def test_a_chunk_that_cannot_be_decoded_is_named(folder, fault):
    fault(folder / "X" / "c" / "1" / "1")
    storage = ZarrStorage(folder)
    assert "chunk 1 of the array" in storage.where(6_100)
    with pytest.raises(SourceError, match=r"rows 6,000 to 11,999 of .*X, chunks 1 to 1, cannot"):
        storage.read(["X"], np.array([6_100]))


class _RunsCode:
    """An object whose pickle writes a file when it is read."""

    def __init__(self, mark):
        self._mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self._mark),)


def _pickled(folder, zarr_format, changed):
    """Write an array whose metadata are changed, and a chunk that is a pickle that runs code."""
    path = folder / "X"
    array = zarr.create_array(path, shape=(9,), chunks=(9,), dtype="f8", zarr_format=zarr_format)
    array[:] = np.arange(9.0)
    file = path / ("zarr.json" if zarr_format == 3 else ".zarray")
    metadata = json.loads(file.read_text())
    changed(metadata)
    file.write_text(json.dumps(metadata))
    chunk = path / ("c/0" if zarr_format == 3 else "0")
    chunk.write_bytes(pickle.dumps(_RunsCode(folder / "ran")))
    return folder


PICKLE = {"id": "pickle", "protocol": 5}
IN_SHARDS = {"codecs": [{"name": "bytes"}], "index_codecs": [{"name": "numcodecs.pickle"}]}


@pytest.mark.parametrize(
    ("zarr_format", "metadata"),
    [
        (2, {"filters": [PICKLE]}),
        (2, {"compressor": PICKLE}),
        (2, {"filters": [PICKLE], "dtype": "|O", "fill_value": None, "compressor": None}),
        (3, {"codecs": [{"name": "pickle", "configuration": {"protocol": 5}}]}),
        (3, {"codecs": [{"name": "bytes"}, {"name": "numcodecs.pickle"}]}),
    ],
)
def test_a_codec_that_runs_code_is_refused_before_a_chunk_is_read(
    tmp_path_factory, zarr_format, metadata
):
    folder = tmp_path_factory.mktemp("pickled")
    folder = _pickled(folder, zarr_format, lambda found: found.update(metadata))
    for source in (folder, {"X": folder / "X"}):
        with pytest.raises(SourceError, match=r"cannot be opened by Zarr|decoded by 'pickle'"):
            ZarrStorage(source)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    "metadata",
    [
        {"filters": [{"id": "delta"}], "compressor": PICKLE},
        {"codecs": ({"name": "sharding_indexed", "configuration": IN_SHARDS},)},
        {"codecs": ({"name": "bytes"}, {"name": "numcodecs.json2"})},
        {"codecs": ({"name": "mine"},)},
    ],
)
def test_codecs_that_zarr_would_decode_are_on_a_list(monkeypatch, metadata):
    array = zarr_group(zarr.storage.MemoryStore())["t"]
    monkeypatch.setattr(type(array.metadata), "to_dict", lambda _: metadata)
    with pytest.raises(SourceError, match="which might run code from the file"):
        ZarrStorage({"t": array})


def test_a_chunk_in_memory_that_is_gone_is_named():
    group = zarr_group(zarr.storage.MemoryStore())
    storage = ZarrStorage(group)
    del group.store._store_dict["t/c/1"]
    with pytest.raises(SourceError, match=r"t/c/1 no longer exists"):
        storage.read(["t"], np.array([5_000]))


def test_a_remote_chunk_that_is_gone_is_named():
    store = zarr.storage.FsspecStore.from_url("memory://test-of-zarr-rows")
    storage = zarrs(store)
    np.testing.assert_array_equal(storage.read(["X"], slice(None))["X"], arrays()["X"])
    sync(store.delete("t/c/1"))
    again = pickle.loads(pickle.dumps(storage))
    np.testing.assert_array_equal(again.read(["t"], slice(0, 9))["t"], arrays()["t"][:9])
    with pytest.raises(SourceError, match=r"t/c/1 no longer exists"):
        again.read(["t"], np.array([5_000]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "has no arrays"),
        ({"X": np.ones(3), "y": np.ones(4)}, "y has 4 rows, and the array .*X has 3"),
        ({"X": np.ones((0, 3))}, "X has no rows"),
        ({"X": np.array(["a", "b"])}, "X has type <U1"),
        ({"X": np.array(1.0)}, "X is a single number"),
    ],
)
def test_what_is_no_array_of_rows_is_refused(values, message):
    group = zarr.open_group(zarr.storage.MemoryStore(), mode="w")
    for name, array in values.items():
        with warnings.catch_warnings():
            # Zarr has no final word on texts.
            warnings.simplefilter("ignore")
            group.create_array(name, shape=array.shape, dtype=array.dtype)
    with pytest.raises(SettingError, match=message):
        Rows.from_zarr(group, missing_are_fill=True)


def test_what_is_no_group_is_refused(folder, tmp_path):
    with pytest.raises(SourceError, match="nothing cannot be opened by Zarr"):
        Rows.from_zarr(tmp_path / "nothing")
    with pytest.raises(SettingError, match=r"is a single array.*Rows.from_zarr\(\{'X': "):
        Rows.from_zarr(folder / "X")
    with pytest.raises(SettingError, match=r"'z' names no array .* Choose from"):
        Rows.from_zarr(folder, ["z"])
    with pytest.raises(SettingError, match="is a string"):
        Rows.from_zarr(folder, "X")
    with pytest.raises(SettingError, match="got a int"):
        Rows.from_zarr(3)
    with pytest.raises(SettingError, match="is not a Zarr array"):
        Rows.from_zarr({"X": folder})
