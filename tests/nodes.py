"""Tests by their node ids: the function, and the arguments that pytest hands to it.

The modules are imported here under names of their own, apart from those that pytest collects.
"""

from functools import cache
from importlib import import_module
from inspect import isfunction, unwrap
from itertools import product
from pathlib import Path

TESTS = Path(__file__).parent


def module_of(node_id):
    """Import the module that a node id such as ``bounds/test_jets.py::test_x`` begins with."""
    path = node_id.split("::")[0]
    return import_module(path.removesuffix(".py").replace("/", "."))


def resolve(node_id):
    """Return the function of a node id, and its parameters: name -> value.

    Raises
    ------
    LookupError
        If there is no such test.
    """
    name, _, case = node_id.partition("::")[2].partition("[")
    function = getattr(module_of(node_id), name, None)
    if not isfunction(function):
        raise LookupError(f"{node_id} is no test")
    if not case:
        return function, {}
    known = cases(function)
    if case.removesuffix("]") not in known:
        raise LookupError(f"{node_id} is none of {list(known)}")
    single = unwrap(function, stop=lambda test: not hasattr(test, "tables"))
    return single, known[case.removesuffix("]")]


def cases(function):
    """Return the parameters of a parametrised test, or of one over tables: id -> name -> value."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    # Tables name the cases of both tiers.
    marks = [*getattr(function, "tables", []), *(mark for mark in marks if mark.args[0] != "tier")]
    return {
        "-".join(part for part, _ in chosen): {
            k: v for _, named in chosen for k, v in named.items()
        }
        for chosen in product(*(cases_of(mark) for mark in marks))
    }


def cases_of(mark):
    """Return the cases of one table as a list: the id, name -> value."""
    names = mark.args[0]
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
    given, found = mark.kwargs.get("ids"), []
    for number, case in enumerate(mark.args[1]):
        # What pytest.param() returns has an id and values.
        param = hasattr(case, "marks")
        own_id, values = (case.id, case.values) if param else (None, case)
        values = tuple(values) if param or len(names) > 1 else (values,)
        if own_id is None and given is not None and not callable(given):
            own_id = str(list(given)[number])
        if own_id is None:
            parts = zip(names, values, strict=True)
            own_id = "-".join(_id_of(name, value, given, number) for name, value in parts)
        found.append((own_id, dict(zip(names, values, strict=True))))
    return found


def _id_of(name, value, given, number):
    made = given(value) if callable(given) else None
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
