import os
import pickle
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

from data.stored_rows import arrays
from pymc_minibatch_mh.data import files as file_reader
from pymc_minibatch_mh.data.files import FileMap, FileReader
from pymc_minibatch_mh.data.source import ArrayStorage
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.model.rows import Rows

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
        found = where.open_map()
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


def test_files_that_are_no_arrays_are_refused(tmp_path):
    expected = arrays(100)
    np.savez(tmp_path / "several.npz", **expected)
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    np.save(tmp_path / "short.npy", expected["X"])
    os.truncate(tmp_path / "short.npy", 700)
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array(1.0), "'X' is a single number"),
        ([1.0], "of type list"),
        (pd.Series([1, None], dtype="Int64"), "without a copy"),
        (pl.Series([True, False]), "without a copy"),
    ],
)
def test_what_is_no_array_of_rows_is_refused(given, message):
    with pytest.raises(SettingError, match=message):
        Rows(X=given)


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


SHAPES = {
    "numbers": lambda x: x[:, 0, 0].copy(),
    "lines": lambda x: x[:, 0].copy(),
    "tables": lambda x: x,
    "other order": lambda x: x.astype(">f8"),
    "small": lambda x: (x > 0.0)[:, 0, :1].copy(),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_rows_are_read_from_their_file_as_from_its_map(shape):
    with TemporaryDirectory() as folder:
        tmp_path = Path(folder)
        values = shape(np.random.default_rng(2).standard_normal((500, 2, 3)))
        np.save(tmp_path / "t.npy", values)
        mapped = np.load(tmp_path / "t.npy", mmap_mode="r")
        for array in (mapped, mapped[3:490]):
            reader = FileReader.of(array)
            for rows in (slice(2, 90), slice(5, 5), slice(480, 900), slice(1, 80, 7), np.arange(0)):
                np.testing.assert_array_equal(reader.read(rows), array[rows], strict=True)
            few = np.array([7, 400, 7, 0, 486])
            np.testing.assert_array_equal(reader.read(few), array[few], strict=True)
            for wrong in ([len(array)], [0, -1]):
                with pytest.raises(IndexError):
                    reader.read(np.array(wrong))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("near", "span"), [(0, 2**22), (64, 512), (10**6, 2**22), (10**6, 96)])
def test_rows_near_each_other_are_read_in_runs(shape, near, span):
    rng, folder = np.random.default_rng(3), TemporaryDirectory()
    with folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_reader, "MAX_GAP_BYTES", near)
        patch.setattr(file_reader, "MAX_READ_BYTES", span)
        patch.setattr(file_reader, "SINGLE_READS", 0)
        np.save(Path(folder.name) / "t.npy", shape(rng.standard_normal((500, 2, 3))))
        mapped = np.load(Path(folder.name) / "t.npy", mmap_mode="r")[7:]
        reader = FileReader.of(mapped)
        for rows in (rng.integers(0, 493, 60), np.sort(rng.choice(493, 60, replace=False))):
            np.testing.assert_array_equal(reader.read(rows), mapped[rows], strict=True)


@pytest.mark.parametrize("rows", [slice(0, 500), np.array([3, 499])], ids=["slice", "numbers"])
def test_a_file_that_is_cut_while_it_is_read_is_named(rows, tmp_path):
    path = tmp_path / "t.npy"
    np.save(path, np.arange(500.0))
    storage = Rows.from_npy(t=path).storage
    looked = storage._files["t"]
    once = iter([lambda: os.truncate(path, 200)])

    class Looked:
        """The file, which is cut once it was looked at."""

        def require_unchanged(self):
            looked.require_unchanged()
            next(once, lambda: None)()

    storage._files["t"] = Looked()
    # Reading the map would end this process.
    with pytest.raises(SourceError, match=r"t\.npy has 200 bytes, but had 4,128"):
        storage.read(["t"], rows)


def test_what_is_written_while_it_is_read_is_not_returned():
    with TemporaryDirectory() as folder:
        tmp_path = Path(folder)
        path = tmp_path / "t.npy"
        np.save(path, np.arange(500.0))
        storage = Rows.from_npy(t=path).storage
        reader = storage._readers["t"]

        class Touched:
            """The rows, of which some are written to at the same time."""

            def read(self, rows):
                os.utime(path, ns=(1, 1))
                return reader.read(rows)

        storage._readers["t"] = Touched()
        with pytest.raises(SourceError, match=r"t\.npy was written to"):
            storage.read(["t"], slice(0, 5))
