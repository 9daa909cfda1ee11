"""The tests of a change are those of its rooms, and of all rooms that see them."""

from pathlib import Path

from quick import rooms_above, selected


def chosen(*names):
    return set(selected([Path(name) for name in names]))


def test_a_room_is_tested_with_those_above_it():
    assert rooms_above({"sampling"}) == {"sampling", "__init__"}
    assert rooms_above({"chain"}) >= {"chain", "steps", "sampling", "diagnostics"}
    assert not rooms_above({"chain"}) & {"native", "bounds", "likelihood"}


def test_what_changed_is_tested_and_what_cannot_see_it_is_not():
    found = chosen("pymc_minibatch_mh/chain/chain.py", "docs/use.md")
    assert found >= {"tests/chain", "tests/steps", "tests/sampling", "tests/test_architecture.py"}
    assert not found & {"tests/native", "tests/model", "tests/bounds", "tests/law/statistical"}
    assert "tests/test_threads.py" in chosen("pymc_minibatch_mh/threads.py")
    assert chosen("pymc_minibatch_mh/native/run.c") >= {"tests/native", "tests/bounds"}


def test_tests_that_changed_are_run_once():
    path = "tests/chain/test_chain.py"
    assert chosen(path) == {path, "tests/test_architecture.py"}
    assert path not in chosen(path, "pymc_minibatch_mh/chain/chain.py")
    assert chosen("tests/chain/test_gone.py", "tests/helpers/zoo.py") == {
        "tests/test_architecture.py"
    }
