"""Compiling expressions of cells to functions of floats."""

import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytensor
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from compiled.fitted import rows_of, run
from every import every
from pymc_minibatch_mh.compiled import scalars
from pymc_minibatch_mh.compiled.scalars import compiled_rowwise, composite_of, leaves_of
from pymc_minibatch_mh.functions.changes import sizes
from pymc_minibatch_mh.likelihood.cells import Cells
from pymc_minibatch_mh.likelihood.differences import remainder_difference

TESTS = Path(__file__).parents[2]
#: Families whose expressions are long, or hold what is written in several ways.
FAMILIES = ("normal_mixture", "student_free")


def compiled(outputs, n_arguments):
    return compiled_rowwise(composite_of(outputs, n_arguments, leaves_of(outputs)))


def test_arguments_come_first_and_leaves_in_the_order_of_their_use():
    cells = Cells()
    u, v = cells.argument(0), cells.argument(1)
    x, y = cells.data(0, ()), cells.data(0, (1,))
    outputs = [cells.node(scalar.sub, (v, y)), cells.node(scalar.mul, (x, u))]
    assert leaves_of(outputs) == [y, x]
    found = run(compiled(outputs, 2), np.array([[2.0, 3.0, 5.0, 7.0]]), width=2)
    np.testing.assert_array_equal(found, [[3.0 - 5.0, 7.0 * 2.0]])


def test_data_are_computed_with_in_their_own_types():
    cells = Cells()
    count = cells.data(0, (), np.dtype("int64"))
    flag = cells.data(1, (), np.dtype("bool"))
    u = cells.argument(0)
    half = cells.node(scalar.int_div, (count, cells.constant(np.int64(2))))
    chosen = cells.node(scalar.switch, (flag, u, cells.real(half)))
    found = run(compiled([chosen], 1), np.array([[0.5, 1.0, 7.0], [0.5, 0.0, 7.0]]), width=1)
    np.testing.assert_array_equal(found[:, 0], [0.5, 3.0])


def test_entries_of_a_table_are_chosen_by_data():
    cells = Cells()
    index = cells.data(0, (), np.dtype("int64"))
    entry = cells.lookup(np.array([1.5, 2.5, 4.0]), index)
    outputs = [cells.node(scalar.add, (entry, cells.argument(0)))]
    inputs = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, -1.0]])
    found = run(compiled(outputs, 1), inputs, width=1)
    np.testing.assert_array_equal(found[:, 0], [1.5, 5.0, 4.0])
    assert scalars.TableEntry(np.array([1.0])) == scalars.TableEntry(np.array([1.0]))
    assert scalars.TableEntry(np.array([1.0])) != scalars.TableEntry(np.array([2.0]))


@every("large", [False, True])
def test_tables_are_compiled_in_unless_they_are_large(large):
    # A megabyte is too much for numba's cache, of which it warns.
    table = np.arange(2**18 if large else 9.0) ** 2
    cells = Cells()
    index = cells.data(0, (), np.dtype("int64"))
    entry = cells.lookup(table, index)
    product = cells.node(scalar.mul, (entry, cells.argument(0)))
    taken = leaves_of([product])
    assert taken == ([entry] if large else [index])
    given = table[3] if large else 3.0
    found = run(compiled([product], 1), np.array([[2.0, given]]), width=1)
    assert found.item() == 2.0 * table[3]


def test_entries_of_large_tables_keep_their_type():
    cells = Cells()
    index = cells.data(0, (), np.dtype("int64"))
    for table in (np.full(2**15, 0.1, dtype="f4"), np.ones(2**17, dtype=bool)):
        entry = cells.lookup(table, index)
        assert leaves_of([entry]) == [entry]
        found = run(compiled([cells.real(entry)], 0), np.array([[float(table[0])]]), width=1)
        assert found.item() == float(table[0])


def test_tables_are_forgotten_with_their_functions():
    table = np.array([0.125, 7.0])
    watch = weakref.ref(table)
    cells = Cells()
    entry = cells.lookup(table, cells.data(0, (), np.dtype("int64")))
    function = compiled([entry], 0)
    assert run(function, np.array([[1.0]]), width=1).item() == 7.0
    del table, cells, entry, function
    gc.collect()
    assert watch() is None


def test_an_argument_and_a_constant_can_be_results():
    cells = Cells()
    outputs = [cells.argument(0), cells.constant(3.0)]
    found = run(compiled(outputs, 1), np.array([[2.0]]), width=2)
    np.testing.assert_array_equal(found, [[2.0, 3.0]])


def test_sizes_may_be_of_constants_of_any_type():
    cells = Cells()
    constants = [cells.constant(x) for x in (np.float32(-9.0), np.int8(-3), np.float64(0.5))]
    total = cells.node(sizes, (cells.argument(0), *constants))
    found = run(compiled([total], 1), np.array([[-2.0]]), width=1)
    assert found.item() == 14.5


def test_equal_expressions_share_one_function():
    def softplus_of_double():
        cells = Cells()
        double = cells.node(scalar.mul, (cells.constant(2.0), cells.argument(0)))
        return compiled([cells.node(scalar_math.softplus, (double,))], 1)

    one = softplus_of_double()
    assert softplus_of_double() is one


def test_functions_nobody_uses_are_forgotten():
    cells = Cells()
    tripled = cells.node(scalar.mul, (cells.constant(3.0), cells.argument(0)))
    composite = composite_of([tripled], 1, [])
    function = compiled_rowwise(composite)
    name = f"{scalars._key(composite.fgraph)}_rowwise"
    assert name in scalars._compiled
    del function
    assert name not in scalars._compiled


def test_a_name_on_disk_is_of_one_arithmetic():
    """PyTensor's default reorders sums: whoever asks for a name first must not bring that in."""
    cells = Cells()
    parts = [cells.argument(k) for k in range(3)]
    total = cells.node(scalar.sub, (cells.node(scalar.add, parts), cells.constant(0.375)))
    composite = composite_of([total], 3, [])
    with pytensor.config.change_flags(numba__fastmath=True):
        scalars._operations.clear()
        scalars._key(composite.fgraph)
    for dispatcher, _ in scalars._operations.values():
        assert not dispatcher.targetoptions["fastmath"]


def names_on_disk(name):
    """Return what the functions of a family are called in PyTensor's cache."""
    found = rows_of(name)
    names = []
    for term, function in enumerate(found.functions):
        m, leaves = len(function.arguments), found.compiled.leaves[term]
        for outputs, times in (
            (found.compiled._slopes[term], 1),
            (list(remainder_difference(function, 2)), 3),
        ):
            names.append(scalars._key(composite_of(outputs, times * m, leaves).fgraph))
    return names


def test_expressions_are_the_same_in_every_process():
    code = (
        "import json; from compiled.test_scalars import *; "
        "print(json.dumps({name: names_on_disk(name) for name in FAMILIES}))"
    )
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "4242", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    there = json.loads(result.stdout.splitlines()[-1])
    assert there == {name: names_on_disk(name) for name in FAMILIES}
    assert None not in there["normal_mixture"]
