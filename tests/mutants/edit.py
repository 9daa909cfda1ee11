"""Functions of the package that are changed, and put in the place of the shipped ones.

A change lasts as long as its context. What has a changed function compiled in is compiled anew as
well, and tests are imported anew.
"""

import __future__

import ast
import builtins
import inspect
import pkgutil
import sys
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import pytest
from numba.core.caching import Cache
from numba.core.dispatcher import Dispatcher

PACKAGE = "pymc_minibatch_mh"
TESTS = Path(__file__).parents[1]
#: Tests and helpers that never hold on to what is changed.
KEPT = ("mutants", "conftest")


class Place(NamedTuple):
    """A function or a class of the package, and its module."""

    module: ModuleType
    value: Any

    def tree(self):
        return ast.parse(dedent(inspect.getsource(_plain(self.value))))


@cache
def places():
    """Import the whole package, and return its functions and classes by their full names."""
    package, found = import_module(PACKAGE), {}
    for info in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        # The library is no module of Python's.
        if not info.name.rpartition(".")[2].isidentifier():
            continue
        module = import_module(info.name)
        own = dict(vars(module))
        for name, owner in vars(module).items():
            if isinstance(owner, type):
                own |= {f"{name}.{k}": value for k, value in vars(owner).items()}
        for name, value in own.items():
            plain = _plain(value)
            defined = (getattr(plain, key, None) for key in ("__module__", "__qualname__"))
            if tuple(defined) == (info.name, name) and hasattr(plain, "__name__"):
                found[f"{info.name}.{name}"] = Place(module, value)
    return found


def place_of(name):
    """Return what the full name of which ends in a name: there has to be one."""
    found = [place for full, place in places().items() if full.endswith(f".{name}")]
    if len(found) != 1:
        raise LookupError(f"{len(found) or 'no'} functions of the package are called {name}")
    return found[0]


def callers(place):
    """Return what has a function compiled in, innermost first."""
    found = {}

    def add_users(value):
        for user in _users()[id(value)]:
            if id(user) not in found:
                add_users(user)
                found[id(user)] = user

    add_users(place.value)
    known = {id(other.value): other for other in places().values()}
    return [known[key] for key in reversed(found)]


def changed(place, changes):
    """Return the syntax tree of a function under changes.

    Raises
    ------
    LookupError
        If a pattern matches no node, or several, or if a change needs a name that is not there.
    """
    tree = place.tree()
    known = {*vars(place.module), *dir(builtins), *_names(tree)}
    for change in changes:
        change.apply(tree)
    if unknown := _names(tree, ast.Load) - _names(tree, ast.Store) - known:
        raise LookupError(f"{changes[0].new!r} needs {unknown}")
    return tree


@contextmanager
def applied(target, changes):
    """Put a changed function in place, and import the tests that are used inside anew."""
    place = place_of(target)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(Cache, "load_overload", _load_unless_of_tests)
        patch.setattr(Cache, "save_overload", lambda *_: None)
        stack.enter_context(_registries_kept(place.module))
        made = {}
        made[id(place.value)] = _made(place, changed(place, changes), made)
        for caller in callers(place):
            made[id(caller.value)] = _made(caller, caller.tree(), made)
        for holder in _holders():
            for name, value in list(vars(holder).items()):
                # As the kernel of an operation, which is an attribute of its class.
                static = isinstance(value, staticmethod)
                new = made.get(id(value.__func__ if static else value))
                if new is not None:
                    patch.setattr(holder, name, staticmethod(new) if static else new)
                elif name.isupper() and isinstance(value, dict):
                    for key in [key for key, rule in value.items() if id(rule) in made]:
                        patch.setitem(value, key, made[id(value[key])])
        stack.enter_context(_tests_anew())
        yield


def _plain(function):
    """Return the Python function behind a compiled one, a static method or a property."""
    # Modules of libraries import more where they are asked for what they do not have.
    if isinstance(function, ModuleType):
        return function
    for name in ("py_func", "__func__", "fget"):
        function = getattr(function, name, function)
    return function


def _names(tree, context=None):
    """Return the names of variables in a tree, or those that are read or written."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.arg)]
    return {
        getattr(node, "id", None) or node.arg
        for node in nodes
        if context is None or isinstance(getattr(node, "ctx", None), context)
    }


@cache
def _users():
    """Return the compiled functions that have another one compiled in, by its id."""
    users = defaultdict(list)
    for _, value in places().values():
        if isinstance(value, Dispatcher):
            for used in _used(value.py_func):
                users[id(used)].append(value)
    return users


def _used(function):
    """Yield the values that a function, and those inside it, refer to in their module."""
    names, codes = set(), [function.__code__]
    for code in codes:
        names.update(code.co_names)
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        yield value
        if isinstance(value, ModuleType):
            yield from [vars(value)[other] for other in names & vars(value).keys()]


def _made(place, tree, made):
    """Execute the definition of a function where others have been replaced."""
    namespace = {name: made.get(id(value), value) for name, value in vars(place.module).items()}
    # What a module imports for type checkers alone is not there.
    flags = __future__.annotations.compiler_flag
    exec(compile(tree, place.module.__file__, "exec", flags), namespace)  # noqa: S102 - our own
    return namespace[tree.body[0].name]


def _holders():
    """Return the modules of the package and its classes."""
    modules = [m for n, m in sys.modules.items() if n.partition(".")[0] == PACKAGE]
    classes = [v for m in modules for v in vars(m).values() if isinstance(v, type)]
    return modules + [c for c in dict.fromkeys(classes) if c.__module__.startswith(PACKAGE)]


_load = Cache.load_overload


def _load_unless_of_tests(self, *arguments):
    """Compile functions of tests anew, which may have the changed one compiled in."""
    of_tests = TESTS in Path(self._py_func.__code__.co_filename).parents
    return None if of_tests else _load(self, *arguments)


@contextmanager
def _registries_kept(module):
    """Take back what a rule registers by being executed again."""
    dispatched = [f for f in vars(module).values() if hasattr(f, "registry") and callable(f)]
    before = [(f, dict(f.registry)) for f in dispatched]
    try:
        yield
    finally:
        for function, registry in before:
            for kind, rule in registry.items():
                function.register(kind, rule)


@contextmanager
def _tests_anew():
    """Forget the modules of tests and their helpers, and bring them back at the end."""
    roots = {p.stem for p in TESTS.iterdir() if p.is_dir() or p.suffix == ".py"} | {
        "benchmarks"
    } - {*KEPT}
    known = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in roots}
    for name in known:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] in roots]:
            del sys.modules[name]
        sys.modules.update(known)
