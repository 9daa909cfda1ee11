"""How the library comes to be: compiled once for its sources, whole, by whoever needs it first."""

import os
import time

import numpy as np
import pytest

from native.sources import TESTS, Sources
from pymc_minibatch_mh.native import compiler, library

pytestmark = pytest.mark.skipif(
    next(compiler.find_compilers(), None) is None, reason="there is no C compiler"
)


@pytest.fixture
def sources(tmp_path):
    """Return a copy of the sources."""
    return Sources(tmp_path / "native")


@pytest.fixture
def nothing_compiles(tmp_path):
    """Return variables of an environment without a compiler."""
    package = tmp_path / "without" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError")
    path = os.pathsep.join(map(str, [package.parent, TESTS, TESTS.parent]))
    return {"PATH": "", "CC": "", "PYTHONPATH": path}


def test_a_library_is_compiled_once(sources):
    assert sources.run() == ""
    (made,) = sources.libraries()
    before = made.stat().st_mtime_ns
    assert sources.run() == ""
    assert sources.libraries() == [made]
    assert made.stat().st_mtime_ns == before


def test_processes_that_compile_at_once_all_have_it(sources):
    for path in (sources.folder / ".objects").glob("arena-*"):
        path.unlink()
    several = [sources.start() for _ in range(3)]
    assert [process.communicate() for process in several] == [("", "")] * 3
    assert len(sources.libraries()) == 1
    assert list((sources.folder / ".objects").glob("tmp*")) == []


def test_an_edit_compiles_the_unit_that_was_edited(sources):
    sources.run()
    kept = {*(sources.folder / ".objects").iterdir()}
    sources.edit("arena.c", "1 << 16", "1 << 15")
    assert sources.run() == ""
    new = {*(sources.folder / ".objects").iterdir()} - kept
    # The digest of all sources is in library.c.
    assert sorted(path.name.partition("-")[0] for path in new) == ["arena", "library"]
    assert len(sources.libraries()) == 2


def test_libraries_of_other_sources_are_removed_when_nobody_may_be_about_to_load_them(sources):
    sources.run()
    (old,) = sources.libraries()
    long_ago = time.time() - 2.0 * compiler._KEPT
    os.utime(old, (long_ago, long_ago))
    sources.edit("arena.c", "1 << 16", "1 << 15")
    sources.run()
    (new,) = sources.libraries()
    assert new != old


@pytest.mark.slow
def test_options_make_a_library_of_their_own(sources):
    sources.run()
    assert sources.run(MH_CC_OPTIONS="-DMH_CHECKED -O1") == ""
    assert len(sources.libraries()) == 2


def test_a_part_of_a_library_is_compiled_anew(sources, nothing_compiles):
    sources.run()
    (made,) = sources.libraries()
    whole = made.read_bytes()
    made.write_bytes(whole[:5_000])
    assert "not a whole one, and no C compiler" in sources.run(**nothing_compiles)
    assert sources.run() == ""
    assert made.stat().st_size == len(whole)


def test_both_ways_to_a_library_are_named_where_there_is_no_compiler(sources, nothing_compiles):
    said = sources.run(**nothing_compiles)
    assert str(sources.folder) in said
    assert "Install a compiler, as gcc or clang, or the Python package ziglang" in said
    assert "from a wheel" in said
    assert sources.run() == ""
    # Then no compiler is asked for.
    assert sources.run(**nothing_compiles) == ""


def test_all_that_a_compiler_says_is_shown(sources):
    sources.edit("arena.c", "#include <stdlib.h>", "#include <stdlib.h>\nint f(void) { return x; }")
    said = sources.run()
    assert "arena.c:5" in said
    assert "‘x’ undeclared" in said or "undeclared identifier 'x'" in said
    assert sources.libraries() == []


def test_a_file_that_is_no_library_is_named(sources):
    sources.run()
    (made,) = sources.libraries()
    made.write_bytes(b"x" * made.stat().st_size)
    said = sources.run()
    assert said.startswith("pymc_minibatch_mh's compiled library cannot be loaded: ")
    assert f"Install the package again; in a checkout, delete {made}" in said


def test_a_library_of_other_sources_is_refused(sources):
    sources.edit("library.c", "return TEXT(MH_DIGEST);", 'return "another";')
    assert sources.run().startswith("the library was compiled from other sources (another, not ")


def test_a_record_of_another_size_is_refused(sources):
    sources.edit("library.c", "{#record, sizeof(record)}", "{#record, sizeof(record) + 8}")
    assert sources.run().startswith("the record mh_bits has 48 bytes in the library, and 40 in its")


def test_arrays_of_other_types_are_refused():
    inner, numbers = library.function("mh_inner_by"), np.arange(4.0)
    assert inner(numbers, numbers[:2], numbers[2:], 2) == 13.0
    for other in (numbers.astype(np.float32), numbers.astype(int), numbers[::2]):
        with pytest.raises(TypeError, match=r"where double \* is taken"):
            inner(numbers, numbers, other, 2)
