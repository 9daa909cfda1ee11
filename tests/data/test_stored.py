import os
import pickle
from tempfile import NamedTemporaryFile

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

from data.stored_rows import arrays, assert_same, assert_same_from_two_threads
from pymc_minibatch_mh.data.file_maps import FileMap
from pymc_minibatch_mh.data.stored import ArrayStorage
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.reading.stored import Rows


@pytest.fixture
def saved(tmp_path):
    """Return arrays, and the paths of their files."""
    expected = arrays()
    for name, values in expected.items():
        np.save(tmp_path / f"{name}.npy", values)
    return expected, {name: tmp_path / f"{name}.npy" for name in expected}


def test_rows_are_those_of_the_arrays():
    expected = arrays()
    assert_same(ArrayStorage(expected), expected)


def test_rows_of_files_are_those_of_the_arrays(saved):
    expected, paths = saved
    storage = Rows.from_npy(**paths).storage
    assert_same(storage, expected)
    assert_same_from_two_threads(storage, expected)


def test_numbers_of_another_byte_order_are_read():
    values = np.arange(10, dtype=">f4")
    found = ArrayStorage({"X": values}).read(["X"], slice(2, 5))["X"]
    np.testing.assert_array_equal(found, np.arange(2, 5, dtype="=f4"), strict=True)


def test_a_pickle_names_files_and_holds_what_is_in_memory(saved):
    expected, paths = saved
    assert len(pickle.dumps(Rows.from_npy(**paths).storage)) < 2_000
    assert len(pickle.dumps(ArrayStorage(expected))) > sum(x.nbytes for x in expected.values())


VIEWS = {
    "whole": lambda x: x,
    "rows": lambda x: x[17:900],
    "backwards": lambda x: x[::-2],
    "transposed": lambda x: x.T,
    "one column": lambda x: x[5:, 1],
    "columns of an array": lambda x: np.asarray(x)[3:, ::2],
    "rows of an array": lambda x: x[10:].view(np.ndarray)[::3],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_views_of_maps_are_opened_as_they_were(view, order):
    with NamedTemporaryFile() as file:
        _open_again(file.name, view, order)


def _open_again(path, view, order):
    whole = np.memmap(path, mode="w+", dtype="f4", offset=64, shape=(1_000, 4), order=order)
    whole[:] = np.random.default_rng(1).standard_normal((1_000, 4))
    whole.flush()
    given = view(whole)
    for _ in range(2):
        where = pickle.loads(pickle.dumps(FileMap.of(given)))
        found = where.opened()
        np.testing.assert_array_equal(found, view(whole), strict=True)
        assert found.strides == given.strides
        given = found


def test_what_was_written_to_a_private_map_is_kept():
    with NamedTemporaryFile() as file:
        np.arange(5.0).tofile(file.name)
        private = np.memmap(file.name, mode="c", dtype="f8")
        private[0] = 99.0
        found = pickle.loads(pickle.dumps(ArrayStorage({"t": private})))
        assert found.read(["t"], slice(0, 1))["t"] == 99.0
        assert np.fromfile(file.name)[0] == 0.0


def shortened(path):
    os.truncate(path, path.stat().st_size // 2)


def rewritten(path):
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"abcd")
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


FAULTS = {
    "missing": (lambda path: path.unlink(), "is no more|No such file"),
    "shortened": (shortened, "bytes"),
    "rewritten": (rewritten, "was written to after it was opened"),
}


@pytest.mark.parametrize(("fault", "message"), FAULTS.values(), ids=FAULTS)
def test_a_file_that_changes_is_named(saved, fault, message):
    _, paths = saved
    storage = Rows.from_npy(**paths).storage
    kept = pickle.dumps(storage)
    fault(paths["t"])
    with pytest.raises(SourceError, match=f"(?s)t.npy.*({message})"):
        storage.read(["t"], slice(0, 1))
    with pytest.raises(SourceError, match=f"(?s)t.npy.*({message})"):
        pickle.loads(kept).read(["t"], slice(0, 1))
    assert "t.npy" in storage.where(3)


def test_files_that_are_no_arrays_are_refused(tmp_path):
    expected = arrays(100)
    np.savez(tmp_path / "several.npz", **expected)
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    np.save(tmp_path / "short.npy", expected["X"])
    shortened(tmp_path / "short.npy")
    (tmp_path / "text.npy").write_text("1, 2, 3")
    with pytest.raises(SettingError, match="archive of several arrays"):
        Rows.from_npy(X=tmp_path / "several.npz")
    with pytest.raises(SettingError, match=r"objects.npy, holds Python objects"):
        Rows.from_npy(X=tmp_path / "objects.npy")
    for name in ("short.npy", "text.npy"):
        with pytest.raises(SourceError, match=rf"{name} with .* cannot be mapped"):
            Rows.from_npy(X=tmp_path / name)
    with pytest.raises(SourceError, match=r"nothing.npy cannot be read: No such file"):
        Rows.from_npy(X=tmp_path / "nothing.npy")


REFUSED = {
    "no arrays": ({}, "has no arrays"),
    "one number": ({"X": np.array(1.0)}, "'X' is one number"),
    "no rows": ({"X": np.empty((0, 2))}, "'X' has no rows"),
    "lengths": ({"X": np.ones(3), "y": np.ones(4)}, "'y' has 4 rows, and 'X' has 3"),
    "text": ({"X": np.array(["a"])}, "'X' has type <U1"),
    "complex": ({"X": np.ones(2, dtype=complex)}, "'X' has type complex128"),
    "float16": ({"X": np.ones(2, dtype="f2")}, "'X' has type float16, .* Store it as float32"),
    "long double": ({"X": np.ones(2, dtype=np.longdouble)}, "reads floats of 32 or 64 bits"),
    "list": ({"X": [1.0]}, "of type list"),
    "copies of pandas": ({"X": pd.Series([1, None], dtype="Int64")}, "without a copy"),
    "copies of Polars": ({"X": pl.Series([True, False])}, "without a copy"),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_array_of_rows_is_refused(given, message):
    with pytest.raises(SettingError, match=message):
        Rows(**given)


@pytest.mark.parametrize(
    "kind",
    [pd.Series, lambda x: pl.Series("t", x), xr.DataArray],
    ids=["pandas", "Polars", "xarray"],
)
def test_columns_of_other_libraries_are_used_where_they_lie(kind):
    values = arrays()["t"]
    column = kind(values)
    found = Rows(t=column).storage.read(["t"], slice(None))["t"]
    np.testing.assert_array_equal(found, values, strict=True)
    assert np.shares_memory(found, np.asarray(column))
