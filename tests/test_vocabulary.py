"""One thing has one name on the whole public surface."""

import ast
import inspect
from collections import Counter
from pathlib import Path

import pymc_minibatch_mh

#: Words for a trace and for a seed that the surface does not use: it says `data` and `random_seed`.
OTHER_WORDS = {"idata", "dt", "trace", "seed", "thin"}


def callables():
    """Yield the public functions and classes, and the public methods of these, by name."""
    for name in pymc_minibatch_mh.__all__:
        thing = getattr(pymc_minibatch_mh, name)
        if isinstance(thing, type) and issubclass(thing, BaseException):
            continue
        yield name, thing
        for part, method in inspect.getmembers(thing, inspect.isfunction):
            own = method.__module__.partition(".")[0] == pymc_minibatch_mh.__name__
            if isinstance(thing, type) and own and not part.startswith("_"):
                yield f"{name}.{part}", method


def other_words(thing):
    """Return the parameters of a function or class whose names are other words."""
    return OTHER_WORDS & set(inspect.signature(thing).parameters)


def test_traces_are_data_and_seeds_random_seed():
    assert {name: other_words(thing) for name, thing in callables() if other_words(thing)} == {}


def test_another_word_is_noticed():
    def plot(dt, *, seed=None):
        pass

    assert other_words(plot) == {"dt", "seed"}


#: Words that say nothing alone, and how often each is still the whole name of a function, an
#: argument, a field or a variable of the package. Numbers only fall: lower them with the code.
WORDS_ALONE = {
    "asked": 20,
    "at": 20,
    "beside": 5,
    "found": 215,
    "given": 51,
    "held": 12,
    "kept": 50,
    "known": 121,
    "of": 25,
    "one": 115,
    "own": 100,
    "place": 94,
    "places": 68,
    "said": 2,
    "told": 2,
    "whole": 44,
}


def whole_names(tree):
    """Yield the names that a file gives to functions, arguments, fields and variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name.strip("_")
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_")
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield (node.id if isinstance(node, ast.Name) else node.attr).strip("_")


def words_alone():
    """Count the words of the list in the whole package."""
    root = Path(pymc_minibatch_mh.__file__).parent
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in root.rglob("*.py"))
    counts = Counter(name for tree in trees for name in whole_names(tree))
    return {word: counts[word] for word in WORDS_ALONE}


def test_words_that_say_nothing_alone_become_fewer():
    assert words_alone() == WORDS_ALONE


def test_whole_names_are_seen():
    source = "def found(told, *, _own=1):\n    held = given = told\n    self.place = held"
    names = Counter(whole_names(ast.parse(source)))
    assert names == Counter(["found", "told", "own", "held", "given", "place"])
