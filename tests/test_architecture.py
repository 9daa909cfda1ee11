"""Who may know of whom, and how long a file and a function may be."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = "pymc_minibatch_mh"
ROOT = Path(__file__).parents[1] / PACKAGE
FILES = sorted(ROOT.rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 350, 40

#: Part -> parts of the package that it may import. A module of the root is its own part;
#: a room inside of a room is one where it is named here.
ARROWS = {
    "__init__": {
        "bounds", "diagnostics", "diagnostics.after", "diagnostics.audit", "diagnostics.forecast",
        "errors", "model.reading", "proposals", "sampling", "steps",
    },
    "_jit": set(),
    "collection": set(),
    "errors": set(),
    "progress": set(),
    "data": {"_jit"},
    "tables": {"errors"},
    "kernels": {"_jit", "data"},
    "acceptance": {"_jit", "errors", "kernels", "tables"},
    "proposals": {"_jit", "errors", "kernels"},
    "model": set(),
    "model.reading": {"data", "errors"},
    "model.row": {"data", "errors", "model.reading"},
    "model.compiled": {"data", "errors", "kernels", "model.reading", "model.row"},
    "expansion": {
        "data", "errors", "kernels", "model.compiled", "model.reading", "model.row", "progress",
    },
    "bounds": {
        "data", "errors", "expansion", "kernels", "model.compiled", "model.reading", "model.row",
        "progress",
    },
    "steps": {
        "acceptance", "bounds", "collection", "data", "errors", "expansion", "kernels",
        "model.reading", "progress", "proposals", "tables",
    },
    "sampling": {"errors", "model.reading", "steps"},
    "diagnostics.forecast": {
        "bounds", "data", "errors", "kernels", "model.reading", "model.row", "progress", "steps",
    },
    "diagnostics.audit": {"diagnostics.after", "errors", "model.reading", "steps"},
    "diagnostics.after": {"data", "errors", "model.reading"},
    "diagnostics": {"diagnostics.after", "diagnostics.audit", "errors"},
}  # fmt: skip
#: Part -> what it may import of what is installed; the others may import anything.
INSTALLED = {
    "_jit": {"numba"},
    "collection": set(),
    "errors": set(),
    "progress": {"rich"},
    "data": {"numba", "llvmlite", "numpy"},
    "kernels": {"numba", "llvmlite", "numpy"},
    "acceptance": {"numba", "numpy"},
    "proposals": {"numpy"},
    "tables": {"numpy", "scipy"},
}
#: Modules that see a narrower part of the package than their part does.
NARROW = {"acceptance": {"kernels": {"signatures"}}, "proposals": {"kernels": {"signatures"}}}


def part_of(path):
    return part_named(path.relative_to(ROOT).with_suffix("").parts)


def part_named(inside):
    """Return the narrowest part with arrows that holds a module, or else its room."""
    names = [".".join(inside[:n]) for n in range(len(inside), 1, -1)]
    return next((name for name in names if name in ARROWS), inside[0])


def imports(path):
    """Return the full names that a file imports, and whether one of them is relative."""
    names, relative = [], False
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            relative |= node.level > 0
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names, relative


def forbidden(part, names):
    """Return the imports of a part that no arrow allows."""
    wrong = []
    for name in names:
        top, *inside = name.split(".")
        if top == PACKAGE:
            asked = part_named(inside)
            narrow = NARROW.get(part, {}).get(asked)
            known = asked == part or asked in ARROWS[part]
            if not known or (narrow is not None and inside[1] not in narrow):
                wrong.append(name)
        elif top not in sys.stdlib_module_names and top not in INSTALLED.get(part, {top}):
            wrong.append(name)
    return wrong


def functions(tree):
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(function):
    """Return the lines of a function's body, without its docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def short(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", FILES, ids=short)
def test_imports_follow_the_arrows(path):
    names, relative = imports(path)
    assert not relative
    assert forbidden(part_of(path), names) == []


def test_every_part_has_its_arrows():
    assert {part_of(path) for path in FILES} == set(ARROWS)


def test_the_arrows_have_no_circle():
    placed = set()
    while ARROWS.keys() - placed:
        ready = {part for part in ARROWS.keys() - placed if ARROWS[part] <= placed}
        assert ready, f"a circle among {ARROWS.keys() - placed}"
        placed |= ready


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("kernels", "pymc_minibatch_mh.acceptance.barker"),
        ("model.reading", "pymc_minibatch_mh.proposals.Mixture"),
        ("model.reading", "pymc_minibatch_mh.model.row.cells.Cell"),
        ("model.row", "pymc_minibatch_mh.model.compiled.graphs.GraphRows"),
        ("diagnostics.after", "pymc_minibatch_mh.diagnostics.audit.verdicts.Verdict"),
        ("data", "pymc_minibatch_mh.errors.refuse"),
        ("acceptance", "pymc_minibatch_mh.kernels.update.update"),
        ("acceptance", "scipy.special.expit"),
    ],
)
def test_an_arrow_against_the_direction_is_noticed(part, name):
    assert forbidden(part, [name]) == [name]


@pytest.mark.parametrize("path", FILES, ids=short)
def test_files_and_functions_are_short(path):
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= LONGEST_FILE
    long = {f.name: length(f) for f in functions(ast.parse(source)) if length(f) > LONGEST_FUNCTION}
    assert long == {}
