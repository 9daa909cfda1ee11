import dask
import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback

from data.stored_rows import arrays, chunked
from every import every
from pymc_minibatch_mh.data.dask_storage import DaskStorage
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.likelihood.stored import Rows


def test_only_the_chunks_that_hold_rows_are_computed_and_only_the_rows_returned():
    sizes = []
    X = da.from_array(arrays()["X"], chunks=(1_000, 3)).map_blocks(
        lambda block: (sizes.append(len(block)), block + 0)[1],
        dtype="f4",
        meta=np.empty((0, 3), "f4"),
    )
    storage = DaskStorage({"X": X})
    kept = []
    with (
        dask.config.set(scheduler="synchronous"),
        Callback(posttask=lambda k, v, *_: kept.append(v)),
    ):
        storage.read(["X"], np.array([7_000, 3, 7_500, 3]))
    assert sizes == [1_000, 1_000]
    assert len(kept[-1]) <= 3


@every(
    ("given", "message"),
    [
        ({}, r"from_dask\(\) has no arrays"),
        ({"X": np.ones(3)}, "is a ndarray. Give an array of Dask"),
        ({"X": da.ones(3).sum()}, "is one number"),
        ({"X": da.ones(9)[da.ones(9) > 0]}, r"Call X.compute_chunk_sizes\(\)"),
        ({"X": da.ones(3), "y": da.ones(4)}, "'y' has 4 rows, and 'X' has 3"),
        ({"X": da.from_array(np.array(["a"]))}, "'X' has type <U1"),
    ],
)
def test_what_is_no_array_of_rows_is_refused(given, message):
    with pytest.raises(SettingError, match=message):
        Rows.from_dask(**given)


def test_arrays_of_dask_are_not_computed_as_a_whole():
    with pytest.raises(SettingError, match=r"which Dask computes. Give Rows.from_dask\(\)"):
        Rows(X=da.ones(3))


def failing(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 3:
        raise OSError("disk on fire")
    return block


def test_a_chunk_that_cannot_be_computed_is_named():
    X = da.from_array(arrays()["X"], chunks=(1_000, 3)).map_blocks(
        failing, dtype="f4", meta=np.empty((0, 3), "f4")
    )
    storage = DaskStorage({"X": X})
    with pytest.raises(SourceError, match=r"rows 3,100 to 3,199 \(chunks 3 to 3 of 'X'\).*on fire"):
        storage.read(["X"], slice(3_100, 3_200))
    np.testing.assert_array_equal(storage.read(["X"], slice(5))["X"], arrays()["X"][:5])
    assert storage.where(3_100) == "row 3,100, chunk 3 of 'X'"


@every("wrong", [lambda block: block[1:], lambda block: block.astype("f8")], ids=["rows", "type"])
def test_blocks_that_are_not_what_was_announced_are_named(wrong):
    X = da.from_array(arrays()["t"], chunks=1_000).astype("f4")
    storage = DaskStorage({"t": X.map_blocks(wrong, dtype="f4", meta=np.empty(0, "f4"))})
    with pytest.raises(SourceError, match=r"('t' was computed as|Dask cannot compute)"):
        storage.read(["t"], slice(0, 1_000))


def test_stamps_tell_other_contents():
    before = DaskStorage(chunked()).stamp
    assert DaskStorage(chunked()).stamp == before
    assert DaskStorage(chunked(t=da.from_array(arrays()["t"] + 1))).stamp != before
