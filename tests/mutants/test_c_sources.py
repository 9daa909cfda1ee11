"""Every mistake in the C sources is killed by the test that is named for it."""

from shutil import copy

import pytest

from helpers.nodes import exists
from mutants.c_sources import Change, catalogue, compiled, survives
from pymc_minibatch_mh.native import compiler

MUTANTS = catalogue()
needs_compiler = pytest.mark.skipif(
    next(compiler.find_compilers(), None) is None, reason="there is no C compiler"
)


def cases():
    """Return the mistakes: a job of their own, but for those without a star, which are slow."""
    tiers = {True: pytest.mark.slow, False: pytest.mark.c_mutant}
    return [pytest.param(m, id=m.name, marks=tiers[m.slow]) for m in MUTANTS]


@needs_compiler
@pytest.mark.parametrize("mutant", cases())
def test_mutant_is_killed(mutant, tmp_path):
    assert not survives(mutant.changes, mutant.killer, tmp_path)


@pytest.mark.c_mutant
@needs_compiler
def test_a_change_that_changes_nothing_survives(tmp_path):
    same = Change("arena.c", "", "last->used += bytes;", "last->used  += bytes;")
    assert survives((same,), MUTANTS[0].killer, tmp_path)


@needs_compiler
def test_what_does_not_compile_or_run_is_not_killed(tmp_path):
    with pytest.raises(OSError, match=r"arena\.c"):
        compiled((Change("arena.c", "", "last->used += bytes;", "used += bytes;"),), tmp_path)
    with pytest.raises(RuntimeError, match="did not run"):
        survives((), "native/test_arena.py::test_that_is_not_there", tmp_path)


@pytest.fixture
def texts(tmp_path):
    """Return a folder with a copy of the sources, of which nothing is compiled."""
    for path in compiler.FOLDER.glob("*.[ch]"):
        copy(path, tmp_path)
    return tmp_path


def test_all_mutants_can_be_applied(texts):
    """Each on its own; the test that kills it is there."""
    for mutant in MUTANTS:
        changed = {texts / change.file for change in mutant.changes}
        before = {path: path.read_bytes() for path in changed}
        for change in mutant.changes:
            change.apply(texts)
        assert any(path.read_bytes() != text for path, text in before.items()), mutant.name
        for path, text in before.items():
            path.write_bytes(text)
        assert exists(mutant.killer), mutant.killer
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("function", "old", "message"),
    [
        ("", "arena->last", "has 'arena->last' [0-9]+ times"),
        ("mh_arena_new", "mark->used", "has 'mark->used' 0 times"),
        ("mh_nothing", "mark->used", "has no function mh_nothing"),
    ],
)
def test_a_change_that_is_not_of_one_place_is_told(function, old, message, texts):
    with pytest.raises(LookupError, match=message):
        Change("arena.c", function, old, "0").apply(texts)
