"""Who may know of whom, how large a room and a function may be, and how much a function takes."""

import ast
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "pymc_minibatch_mh"
ROOT = Path(__file__).parents[1] / PACKAGE
FILES = sorted(ROOT.rglob("*.py"))
LONGEST_FUNCTION, MOST_ARGUMENTS = 40, 8
#: Takes what ``pm.sample`` takes, by the same names.
AS_IN_PYMC = {"sampling/driver.py: sample"}
#: Takes what ``mh_users_decide_batch`` in ``mh.h`` does.
AS_IN_C = {"steps/custom.py: decide_batch"}
#: Lines that a room may take, with docstrings. A capability that needs more says what it replaces.
BUDGETS = {
    "(top)": 605, "native": 1_382, "data": 2_102, "functions": 2_699, "expressions": 4_295,
    "model": 4_382, "structure": 2_276, "reparametrize": 1_326, "compiled": 2_978,
    "proposals": 1_322, "reference": 6_040, "bounds": 4_881, "plan": 2_999, "samplers": 422,
    "chain": 1_134, "steps": 3_170, "published": 1_044, "sampling": 2_361, "diagnostics": 3_612,
}  # fmt: skip

#: Part -> parts of the package that it may import. A module of the root is its own part;
#: a room inside of a room is one where it is named here.
ARROWS = {
    "__init__": {
        "bounds", "diagnostics", "errors", "model", "proposals", "published", "sampling", "steps",
    },
    "_jit": {"errors", "progress"},
    "checks": {"errors"},
    "costs": set(),
    "errors": set(),
    "progress": set(),
    "threads": set(),
    "native": set(),
    "data": {"errors", "native", "threads"},
    "functions": {"_jit", "errors", "native"},
    "expressions": {"functions"},
    "model": {"data", "errors", "functions", "progress"},
    "structure": {"data", "errors", "expressions", "functions", "model"},
    "reparametrize": {"data", "errors", "expressions", "functions", "model", "structure"},
    "compiled": {
        "data", "errors", "expressions", "functions", "model", "native", "structure", "threads",
    },
    "proposals": {"_jit", "checks", "costs", "data", "errors", "native", "threads"},
    "reference": {
        "compiled", "costs", "data", "errors", "expressions", "model", "native", "progress",
        "structure", "threads",
    },
    "bounds": {
        "compiled", "costs", "data", "errors", "expressions", "functions", "model", "native",
        "progress", "reference", "structure",
    },
    "plan": {
        "bounds", "compiled", "costs", "data", "errors", "model", "native", "reference",
        "reparametrize", "structure", "threads",
    },
    "samplers": {"costs", "errors", "native", "plan", "proposals", "reference"},
    "chain": {"bounds", "errors", "native", "plan", "reference", "samplers", "threads"},
    "steps": {
        "bounds", "chain", "checks", "costs", "data", "errors", "model", "native", "plan",
        "progress", "proposals", "reference", "samplers",
    },
    "published": {
        "bounds", "checks", "compiled", "data", "errors", "expressions", "functions", "model",
        "native", "plan", "progress", "proposals", "reference", "samplers", "steps", "structure",
    },
    "sampling": {
        "chain", "checks", "costs", "data", "diagnostics", "errors", "functions", "model", "native",
        "progress", "steps", "threads",
    },
    "diagnostics": {
        "chain", "checks", "compiled", "costs", "data", "errors", "expressions", "functions",
        "model", "native", "plan", "progress", "steps", "structure",
    },
}  # fmt: skip
#: What rows are stored by, each in modules of its own.
STORED_BY = {"dask", "pyarrow", "zarr"}
#: Part -> what it may import of what is installed; the others may import anything.
INSTALLED = {
    "__init__": set(),
    "_jit": {"numba"},
    "errors": set(),
    "progress": {"rich"},
    "threads": {"threadpoolctl"},
    "data": {"numpy", *STORED_BY},
    "native": {"cffi", "numpy"},
    "proposals": {"numba", "llvmlite", "numpy"},
    "samplers": {"numpy"},
    "chain": {"numpy"},
}


def part_of(path):
    return part_named(path.relative_to(ROOT).with_suffix("").parts)


def part_named(inside):
    """Return the narrowest part with arrows that holds a module, or else its room."""
    names = [".".join(inside[:n]) for n in range(len(inside), 1, -1)]
    return next((name for name in names if name in ARROWS), inside[0])


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path):
    """Return the full names that a file imports, and whether one of them is relative."""
    names, relative = [], False
    for node in ast.walk(tree(path)):
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
            if asked != part and asked not in ARROWS[part]:
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


def taken(function):
    """Return how many arguments a function takes, besides an instance or a class."""
    given = function.args
    names = [one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]]
    own = names[:1] in (["self"], ["cls"])
    return len(names) - own + (given.vararg is not None) + (given.kwarg is not None)


def short(path):
    return path.relative_to(ROOT).as_posix()


def module(path):
    """Return the name of a file's module inside the package, "" for the package itself."""
    return short(path).removesuffix(".py").removesuffix("__init__").strip("/").replace("/", ".")


def graph():
    """Return module -> modules of the package that it imports."""
    known = {module(path) for path in FILES}
    found = {}
    for path in FILES:
        inside = [n.removeprefix(f"{PACKAGE}.") for n in imports(path)[0] if n.startswith(PACKAGE)]
        asked = {name if name in known else name.rpartition(".")[0] for name in inside}
        found[module(path)] = (asked & known) - {module(path), ""}
    return found


def circles(graph):
    """Return circles of imports, each as its modules in order, until no other is left."""
    graph, found = {name: set(asked) for name, asked in graph.items()}, set()
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle = error.args[1]
            found.add(tuple(sorted({*circle})))
            graph[circle[1]].discard(circle[0])
        else:
            return found


def test_imports_follow_the_arrows():
    assert [short(path) for path in FILES if imports(path)[1]] == []
    wrong = {short(path): forbidden(part_of(path), imports(path)[0]) for path in FILES}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_storages_are_imported_by_the_modules_that_are_named_after_them():
    for library in STORED_BY:
        found = {
            path.stem for path in FILES for name in imports(path)[0]
            if name.split(".")[0] == library
        }  # fmt: skip
        assert found == {{"pyarrow": "parquet"}.get(library, library)}


def test_every_part_has_its_arrows():
    assert {part_of(path) for path in FILES} == set(ARROWS)


def test_the_arrows_have_no_circle():
    assert circles(ARROWS) == set()


def test_files_have_no_circles():
    assert circles(graph()) == set()


def test_circles_are_found():
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == {("a", "b", "c")}
    twice = {"a": {"b"}, "b": {"a"}, "c": {"d", "a"}, "d": {"c"}}
    assert circles(twice) == {("a", "b"), ("c", "d")}


def test_every_arrow_is_followed():
    followed = {part: set() for part in ARROWS}
    for path in FILES:
        for name in imports(path)[0]:
            top, *inside = name.split(".")
            if top == PACKAGE and part_named(inside) != part_of(path):
                followed[part_of(path)].add(part_named(inside))
    assert followed == ARROWS


AGAINST = [
    ("native", "pymc_minibatch_mh.steps.barker"),
    ("native", "pymc.Model"),
    ("model", "pymc_minibatch_mh.expressions.graph.Expr"),
    ("expressions", "pymc_minibatch_mh.model.factorization.Factorization"),
    ("structure", "pymc_minibatch_mh.compiled.graphs.GraphRows"),
    ("diagnostics", "pymc_minibatch_mh.sampling.driver.sample"),
    ("data", "pymc_minibatch_mh.expressions.graph.Cell"),
    ("proposals", "scipy.special.expit"),
    ("proposals", "pymc_minibatch_mh.chain.chain.Chain"),
    ("plan", "pymc_minibatch_mh.steps.base.MinibatchStep"),
    ("chain", "pymc_minibatch_mh.steps.base.MinibatchStep"),
    ("chain", "pymc.Model"),
]


def test_an_arrow_against_the_direction_is_noticed():
    assert [(part, name) for part, name in AGAINST if forbidden(part, [name]) != [name]] == []


def test_rooms_keep_to_their_budgets():
    taken = dict.fromkeys(BUDGETS, 0)
    for path in FILES:
        room, *inside = short(path).split("/")
        taken[room if inside else "(top)"] += len(path.read_text(encoding="utf-8").splitlines())
    assert {room: n for room, n in taken.items() if n > BUDGETS[room]} == {}


def too_much(measure, limit):
    """Return the functions of the package that a measure finds too large: name -> number."""
    every = [(short(path), function) for path in FILES for function in functions(tree(path))]
    return {f"{file}: {f.name}": measure(f) for file, f in every if measure(f) > limit}


def test_functions_are_short():
    assert too_much(length, LONGEST_FUNCTION) == {}


def test_functions_take_few_arguments():
    assert set(too_much(taken, MOST_ARGUMENTS)) == AS_IN_PYMC | AS_IN_C


def test_functions_are_measured():
    source = "def f(self, a, /, b, *c, d=1, **e):\n    'Docstring.'\n    a = 1\n\n    return a"
    (function,) = functions(ast.parse(source))
    assert taken(function) == 5
    assert length(function) == 3
    assert too_much(length, LONGEST_FUNCTION - 10) != {}
