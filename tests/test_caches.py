"""Compiled functions are kept for every process, whatever others keep at the same time."""

import os
import subprocess
import sys
from collections import namedtuple

import pytest
from numba import types
from numba.core import config
from numba.core.caching import FunctionCache

from pymc_minibatch_mh import MinibatchError, _jit
from pymc_minibatch_mh.steps.austere import AustereTest


def doubled(x):
    return x + x


@pytest.fixture
def process(tmp_path, monkeypatch):
    """Return a function's cache as a new process has it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    config.reload_config()
    yield lambda kind=_jit._Cache: kind(doubled)
    monkeypatch.undo()
    config.reload_config()


def compiled(cache, typed):
    """Return the function for a type, from the cache where it has it."""
    dispatcher = _jit.compiled(kept=False)(doubled)
    dispatcher._cache = cache
    dispatcher.compile((typed,))
    return dispatcher


def found_by_a_third(process, monkeypatch, kind):
    """Return what a process finds for integers after two wrote at once, for floats and integers."""
    first, second = process(kind), process(kind)
    file, write = first._cache_file, first._cache_file._save_data

    def late(name, data):
        monkeypatch.setattr(second._cache_file, "_load_index", dict)
        compiled(second, types.int64)
        write(name, data)

    monkeypatch.setattr(file, "_save_data", late)
    compiled(first, types.float64)
    third = compiled(process(kind), types.int64)
    assert third.stats.cache_hits
    return third(3)


def test_functions_that_two_processes_keep_at_once_are_not_mixed_up(process, monkeypatch):
    assert type(found_by_a_third(process, monkeypatch, _jit._Cache)) is int


def test_numba_itself_mixes_them_up(process, monkeypatch):
    """Else there would be no need of a cache of our own."""
    assert type(found_by_a_third(process, monkeypatch, FunctionCache)) is float


def test_an_index_tells_of_no_records_but_those_of_the_package(process, monkeypatch):
    """Whoever reads it imports the modules of its records, which another process might not have."""
    own, other = (
        (types.NamedTuple((types.int64,), record),)
        for record in (AustereTest, namedtuple("Other", "x", module=__name__))
    )
    file = process()._cache_file
    for key in ((own, "hashes"), (other, "hashes")):
        file.save(key, b"compiled")
        assert process()._cache_file.load(key) == b"compiled"
    assert list(process()._cache_file._load_index()) == [(own, "hashes")]
    # What the module of a record holds is compiled in.
    monkeypatch.setattr(_jit, "_digest", lambda path: "another")
    assert file.load((own, "hashes")) == b"compiled"
    assert file.load((other, "hashes")) is None


def test_it_is_said_once_for_a_model_that_functions_are_compiled(process, monkeypatch, caplog):
    monkeypatch.setattr(_jit._Cache, "compiles", False)
    with caplog.at_level("INFO", "pymc"):
        for typed in (types.float64, types.int64):
            compiled(process(), typed)
    said = "Compiling functions for this kind of model, once; this can take a minute."
    assert caplog.messages == [said]
    # The next model may need others.
    _jit.announce_anew()
    with caplog.at_level("INFO", "pymc"):
        compiled(process(), types.int32)
    assert caplog.messages == [said, said]
    caplog.clear()
    monkeypatch.setattr(_jit._Cache, "compiles", False)
    compiled(process(), types.int64)
    assert caplog.text == ""


def test_a_function_is_found_by_what_its_source_holds(process, monkeypatch):
    compiled(process(), types.float64)
    monkeypatch.setattr("numba.core.caching._SourceFileBackedLocatorMixin.get_source_stamp", int)
    assert compiled(process(), types.float64).stats.cache_hits
    monkeypatch.setattr(_jit, "_digest", lambda path: "another")
    assert not compiled(process(), types.float64).stats.cache_hits


@pytest.mark.parametrize(("options", "compilations"), [({"spliced": True}, 0), ({}, 1)])
def test_a_spliced_function_is_compiled_as_a_part_of_its_caller_alone(options, compilations):
    own = _jit.compiled(kept=False, **options)(doubled)

    @_jit.compiled(kept=False)
    def caller(x):
        return own(x) + 1.0

    assert caller(2.0) == 5.0
    assert len(own.signatures) == compilations


def damaged(file, how):
    content = file.read_bytes()
    file.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "emptied": b"",
            "zeros": bytes(len(content)),
            "a byte altered": content[:60] + bytes([content[60] ^ 1]) + content[61:],
        }[how]
    )


@pytest.mark.parametrize("how", ["cut", "emptied", "zeros", "a byte altered"])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_file_is_written_anew_and_told_once(
    process, monkeypatch, caplog, tmp_path, kind, how
):
    monkeypatch.setattr(_jit._CacheFile, "told", False)
    compiled(process(), types.float64)
    (file,) = tmp_path.rglob(f"*.{kind}")
    for told in (True, False):
        damaged(file, how)
        found = compiled(process(), types.float64)
        assert found(0.75) == 1.5
        assert not found.stats.cache_hits
        assert (str(file) in caplog.text) == told
        caplog.clear()
        assert compiled(process(), types.float64).stats.cache_hits


def test_a_folder_in_the_place_of_a_file_is_told(process, monkeypatch, caplog, tmp_path):
    """It cannot be read, and not be replaced either."""
    monkeypatch.setattr(_jit._CacheFile, "told", False)
    monkeypatch.setattr(_jit._Cache, "told", False)
    compiled(process(), types.float64)
    (file,) = tmp_path.rglob("*.nbi")
    file.unlink()
    file.mkdir()
    assert compiled(process(), types.float64)(0.75) == 1.5
    assert "is damaged or cannot be read" in caplog.text
    assert "Numba cannot store compiled functions" in caplog.text


def test_a_compiler_that_is_turned_off_is_named(monkeypatch):
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with pytest.raises(MinibatchError, match="NUMBA_DISABLE_JIT turns numba's compiler off"):
        _jit.compiled()(doubled)


def test_nothing_else_is_said_of_a_compiler_that_is_turned_off():
    code = "import pymc_minibatch_mh as mb\nmb.TunaMH"
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    message = done.stderr.splitlines()[-1]
    assert message.startswith("pymc_minibatch_mh.errors.MinibatchError: NUMBA_DISABLE_JIT")
    assert message.endswith("Unset that environment variable, and start Python anew.")
