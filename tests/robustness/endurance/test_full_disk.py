"""A disk that is full: an error that names the file, or a run that goes on, and no half file."""

import resource
import stat
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.data.archive import write_archive


@contextmanager
def files_of_at_most(n_bytes):
    """Let every write beyond so many bytes of a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("before", [True, False], ids=["over another", "anew"])
def test_a_step_is_saved_as_a_whole_or_not_at_all(prepared, model_of, tmp_path, before):
    step, path = prepared("poisson", "TunaMH"), tmp_path / "step.npz"
    if before:
        step.save(path)
    there = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    with files_of_at_most(500), pytest.raises(OSError, match=r"too large: '.*step\.npz'"):
        step.save(path)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == there
    step.save(path)
    assert [one.name for one in tmp_path.iterdir()] == ["step.npz"]
    again = TunaMH(model=model_of("poisson"), prepared=path)
    np.testing.assert_array_equal(again.reference.centre, step.reference.centre)


def test_what_cannot_be_written_leaves_what_was_there():
    with TemporaryDirectory() as folder:
        path = Path(folder) / "step.npz"
        path.write_bytes(b"an older step")
        with files_of_at_most(500), pytest.raises(OSError, match="too large"):
            write_archive(path, {"c": np.zeros(5_000)})
        assert path.read_bytes() == b"an older step"
        assert [one.name for one in Path(folder).iterdir()] == ["step.npz"]


def test_a_link_to_a_file_stays_one(prepared, tmp_path):
    step = prepared("poisson", "TunaMH")
    (tmp_path / "link.npz").symlink_to(tmp_path / "step.npz")
    step.save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert (tmp_path / "step.npz").is_file()


def test_a_device_that_is_full_is_named_and_stays_a_device(prepared):
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        prepared("poisson", "TunaMH").save("/dev/full")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)
