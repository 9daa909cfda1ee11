"""Only methods that say so are handed tables to draw rows by."""

import inspect
import pkgutil
from importlib import import_module

from every import every
from pymc_minibatch_mh import steps as methods
from pymc_minibatch_mh.kernels.bound_tables import draw_rows
from pymc_minibatch_mh.kernels.draw import draw_alias
from pymc_minibatch_mh.plan.method import Method

MODULES = [
    import_module(f"{methods.__name__}.{found.name}")
    for found in pkgutil.iter_modules(methods.__path__)
]
METHODS = [
    each
    for module in MODULES
    for _, each in inspect.getmembers(module, inspect.isclass)
    if issubclass(each, Method) and each.__module__ == module.__name__
]


@every("method", METHODS, ids=lambda method: method.__name__)
def test_who_draws_rows_by_their_bounds_says_so(method):
    # Compiled code does not check places in arrays: those of other methods are empty.
    used = vars(inspect.getmodule(method)).values()
    assert method.draws_by_bounds == any(
        each is draw for each in used for draw in (draw_alias, draw_rows)
    )


def test_some_do_and_some_do_not():
    assert {method.draws_by_bounds for method in METHODS} == {True, False}
