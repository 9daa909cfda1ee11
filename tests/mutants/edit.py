"""Edits of the shipped source, compiled anew and put in the place of what they change.

An edit is applied in this process only and taken back at its end: the text of a function of the
package is altered, and so is every function that has it compiled in.
"""

import __future__

import inspect
import pkgutil
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from numba.core.registry import cpu_target

from kernels.chain import nothing_kept
from pymc_minibatch_mh import _jit
from pymc_minibatch_mh.kernels import roles

PACKAGE = "pymc_minibatch_mh"
TESTS = Path(__file__).parents[1]
#: Tests and helpers that never hold on to what an edit replaces.
KEPT = ("mutants", "nodes", "conftest")


@dataclass(frozen=True)
class Edit:
    """One change of the text of a function.

    Parameters
    ----------
    target
        Module and name of the function, from the package on: "kernels.alias.draw_alias".
    old, new
        Text that is replaced, which must be there, and by what.
    callers
        Functions that have the target compiled in, innermost first.
    """

    target: str
    old: str
    new: str
    callers: tuple[str, ...] = ()

    @property
    def unchanged(self):
        """The same functions, compiled anew from the text that is shipped."""
        return Edit(self.target, self.old, self.old, self.callers)

    def require_there(self):
        """Fail unless target and callers are in the package, and the text is in the target."""
        assert self.old in text_of(self.target), f"{self.target} no longer has {self.old!r}"
        for caller in self.callers:
            text_of(caller)


def text_of(target):
    """Return the source of a function of the package."""
    _, owner, name = _found(target)
    return dedent(inspect.getsource(_plain(inspect.getattr_static(owner, name))))


def compiled(signature=None, **options):
    """Compile as the package does, without a cache: a mutant has no file."""
    return _jit.compiled(signature, **options | {"kept": False})


@contextmanager
def applied(edit):
    """Put an edit in place, and import the tests that are used inside anew."""
    _import_all()
    with ExitStack() as stack:
        stack.enter_context(_roles_resolved_anew())
        stack.enter_context(nothing_kept())
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        stack.enter_context(_registries_kept(edit))
        replaced = {}
        for target in (edit.target, *edit.callers):
            _replace(patch, target, edit if target == edit.target else None, replaced)
        stack.enter_context(_tests_anew())
        yield


@cache
def _import_all():
    """Import the whole package: a module that is imported under an edit keeps what it finds."""
    for module in pkgutil.walk_packages(import_module(PACKAGE).__path__, f"{PACKAGE}."):
        import_module(module.name)


def _replace(patch, target, edit, replaced):
    module, owner, name = _found(target)
    original = inspect.getattr_static(owner, name)
    source = text_of(target)
    if edit is not None:
        edit.require_there()
        source = source.replace(edit.old, edit.new)
    namespace = {k: replaced.get(id(v), v) for k, v in vars(module).items()}
    namespace["compiled"] = compiled
    # Where a function is a role of a record, that is patched below, and taken back.
    namespace["role_of"] = lambda record, name: lambda function: function
    # What a module imports for type checkers alone is not there.
    code = compile(source, module.__file__, "exec", flags=__future__.annotations.compiler_flag)
    exec(code, namespace)  # noqa: S102 - our own source
    new = namespace[name]
    replaced[id(original)] = new
    for place in _holders() if isinstance(owner, ModuleType) else [owner]:
        for own_name, value in list(vars(place).items()):
            if value is original:
                patch.setattr(place, own_name, new)


def _found(target):
    """Return the module of a target, what holds it, and its name there."""
    parts = target.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        name = ".".join([PACKAGE, *parts[:cut]])
        if (
            name in sys.modules
            or (TESTS.parent / name.replace(".", "/")).with_suffix(".py").exists()
        ):
            module = owner = import_module(name)
            for part in parts[cut:-1]:
                owner = getattr(owner, part)
            return module, owner, parts[-1]
    raise LookupError(f"{target} is in no module of the package")


def _plain(function):
    """Return the Python function behind a compiled one, a static method or a property."""
    for name in ("py_func", "__func__", "fget"):
        function = getattr(function, name, function)
    return function


def _holders():
    """Return the modules of the package and its classes."""
    modules = [m for n, m in sys.modules.items() if n.partition(".")[0] == PACKAGE]
    classes = [v for m in modules for v in vars(m).values() if isinstance(v, type)]
    return modules + [c for c in dict.fromkeys(classes) if c.__module__.startswith(PACKAGE)]


@contextmanager
def _roles_resolved_anew():
    """Forget which functions numba has found for the roles of records, now and at the end."""
    _forget_roles()
    try:
        yield
    finally:
        _forget_roles()


def _forget_roles():
    context = cpu_target.typing_context
    context.refresh()
    for role in (roles.propose, roles.decide, roles.plan, roles.judge):
        for template in context.resolve_value_type(role).templates:
            template._impl_cache.clear()


@contextmanager
def _registries_kept(edit):
    """Take back what a rule registers by being executed again."""
    module, *_ = _found(edit.target)
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
    roots = {p.stem for p in TESTS.iterdir() if p.is_dir() or p.suffix == ".py"} - {*KEPT}
    known = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in roots}
    for name in known:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] in roots]:
            del sys.modules[name]
        sys.modules.update(known)
