"""Tests by their node ids: the function, and the parameters that pytest hands to it.

The modules are imported here under names of their own, apart from those that pytest collects.
"""

from collections import Counter
from functools import cache
from importlib import import_module
from inspect import isfunction
from itertools import product
from pathlib import Path

TESTS = Path(__file__).parents[1]


def module_of(node_id):
    """Import the module that a node id such as ``bounds/test_jets.py::test_x`` begins with."""
    path = node_id.split("::")[0]
    return import_module(path.removesuffix(".py").replace("/", "."))


def resolve(node_id):
    """Return the function of a node id, and the parameters of its cases, each name -> value.

    Without a case in brackets these are all cases of the fast tier, or else all.

    Raises
    ------
    LookupError
        If there is no such test.
    """
    name, _, case = node_id.partition("::")[2].partition("[")
    function = getattr(module_of(node_id), name, None)
    if not isfunction(function):
        raise LookupError(f"{node_id} is no test")
    known = cases(function)
    if not case:
        fast = [values for values, slow in known.values() if not slow]
        return function, fast or [values for values, _ in known.values()]
    if case.removesuffix("]") not in known:
        raise LookupError(f"{node_id} is none of {list(known)}")
    return function, [known[case.removesuffix("]")][0]]


def cases(function):
    """Return the cases of a test: id -> parameters, and whether the case is marked slow."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    return {
        "-".join(name for name, _, _ in chosen): (
            {name: value for _, values, _ in chosen for name, value in values.items()},
            any(slow for _, _, slow in chosen),
        )
        for chosen in product(*map(rows_of, marks))
    }


def rows_of(mark):
    """Return the rows of one table: the id, name -> value, and whether it is marked slow."""
    names = mark.args[0]
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    ids, rows = mark.kwargs.get("ids"), []
    for number, case in enumerate(mark.args[1]):
        # What pytest.param() returns has an id, values and marks.
        param = hasattr(case, "marks")
        case_id, values = (case.id, case.values) if param else (None, case)
        values = tuple(values) if param or len(names) > 1 else (values,)
        if case_id is None and ids is not None and not callable(ids):
            case_id = str(list(ids)[number])
        if case_id is None:
            parts = zip(names, values, strict=True)
            case_id = "-".join(_id_of(name, value, ids, number) for name, value in parts)
        slow = any(mark.name == "slow" for mark in (case.marks if param else ()))
        rows.append((case_id, dict(zip(names, values, strict=True)), slow))
    # As pytest does, where ids of several rows are the same, such as those of lambdas.
    known, seen = Counter(case_id for case_id, _, _ in rows), Counter()
    for k, (case_id, *rest) in enumerate(rows):
        if known[case_id] > 1:
            suffix = "_" if case_id[-1:].isdigit() else ""
            rows[k] = (f"{case_id}{suffix}{seen[case_id]}", *rest)
            seen[case_id] += 1
    return rows


def _id_of(name, value, ids, number):
    made = ids(value) if callable(ids) else None
    if made is None:
        made = value
    if isinstance(made, str | int | float | bool) or made is None:
        return str(made)
    return getattr(made, "__name__", f"{name}{number}")


@cache
def exists(node_id):
    """Whether there is such a test; parameters of fixtures are not looked into."""
    try:
        resolve(node_id)
    except LookupError:
        return False
    return True
