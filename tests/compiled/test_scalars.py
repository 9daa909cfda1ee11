"""Compiling expressions of cells to functions of floats."""

import time

import numpy as np
import pytensor
import pytest
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from compiled.fitted import rows_of, run
from helpers.another_process import printed
from pymc_minibatch_mh.compiled import scalar_functions as scalars
from pymc_minibatch_mh.compiled.differences import remainder_difference
from pymc_minibatch_mh.compiled.scalar_functions import (
    compiled_rowwise,
    data_leaves,
    make_composite,
)
from pymc_minibatch_mh.expressions.graph import ExprGraph
from pymc_minibatch_mh.functions import changes

#: Families whose expressions are long, or hold what is written in several ways.
FAMILIES = ("normal_mixture", "student_free")


def compiled(outputs, n_arguments):
    return compiled_rowwise(make_composite(outputs, n_arguments, data_leaves(outputs)))


def test_arguments_come_first_and_leaves_in_the_order_of_their_use():
    exprs = ExprGraph()
    u, v = exprs.argument(0), exprs.argument(1)
    x, y = exprs.data(0, ()), exprs.data(0, (1,))
    outputs = [exprs.node(scalar.sub, (v, y)), exprs.node(scalar.mul, (x, u))]
    assert data_leaves(outputs) == [y, x]
    found = run(compiled(outputs, 2), np.array([[2.0, 3.0, 5.0, 7.0]]), width=2)
    np.testing.assert_array_equal(found, [[3.0 - 5.0, 7.0 * 2.0]])


def test_data_are_computed_with_in_their_own_types():
    exprs = ExprGraph()
    count = exprs.data(0, (), np.dtype("int64"))
    flag = exprs.data(1, (), np.dtype("bool"))
    u = exprs.argument(0)
    half = exprs.node(scalar.int_div, (count, exprs.constant(np.int64(2))))
    chosen = exprs.node(scalar.switch, (flag, u, exprs.real(half)))
    found = run(compiled([chosen], 1), np.array([[0.5, 1.0, 7.0], [0.5, 0.0, 7.0]]), width=1)
    np.testing.assert_array_equal(found[:, 0], [0.5, 3.0])


def test_entries_of_a_table_are_chosen_by_data():
    exprs = ExprGraph()
    index = exprs.data(0, (), np.dtype("int64"))
    entry = exprs.lookup(np.array([1.5, 2.5, 4.0]), index)
    outputs = [exprs.node(scalar.add, (entry, exprs.argument(0)))]
    inputs = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, -1.0]])
    found = run(compiled(outputs, 1), inputs, width=1)
    np.testing.assert_array_equal(found[:, 0], [1.5, 5.0, 4.0])
    assert scalars.TableEntry(np.array([1.0])) == scalars.TableEntry(np.array([1.0]))
    assert scalars.TableEntry(np.array([1.0])) != scalars.TableEntry(np.array([2.0]))


@pytest.mark.parametrize("large", [False, True])
def test_tables_are_compiled_in_unless_they_are_large(large):
    # A megabyte is too much for numba's cache, of which it warns.
    table = np.arange(2**18 if large else 9.0) ** 2
    exprs = ExprGraph()
    index = exprs.data(0, (), np.dtype("int64"))
    entry = exprs.lookup(table, index)
    product = exprs.node(scalar.mul, (entry, exprs.argument(0)))
    taken = data_leaves([product])
    assert taken == ([entry] if large else [index])
    given = table[3] if large else 3.0
    found = run(compiled([product], 1), np.array([[2.0, given]]), width=1)
    assert found.item() == 2.0 * table[3]


def test_equal_expressions_share_one_function():
    def softplus_of_double():
        exprs = ExprGraph()
        double = exprs.node(scalar.mul, (exprs.constant(2.0), exprs.argument(0)))
        return compiled([exprs.node(scalar_math.softplus, (double,))], 1)

    one = softplus_of_double()
    assert softplus_of_double() is one


def density_of(size):
    """Return the compiled density k u_k, summed over `size` coordinates, as no file has it."""
    exprs = ExprGraph()
    numbers = [(exprs.constant(float(k)), exprs.argument(k)) for k in range(size)]
    parts = [exprs.node(scalar.mul, pair) for pair in numbers]
    with pytensor.config.change_flags(numba__cache=False):
        total = make_composite([exprs.node(scalar.add, tuple(parts))], size, [])
        return scalars.compiled_log_density(total).source


def test_machine_code_grows_in_proportion_to_the_number_of_coordinates():
    few, many = density_of(16), density_of(64)
    assert len(many.inspect_llvm()) < 4 * len(few.inspect_llvm())
    position = np.arange(64.0)
    pointer = position.ctypes.data_as(many.ctypes.argtypes[0])
    assert many.ctypes(pointer, None) == np.sum(position**2)


@pytest.mark.parametrize("size", [5, 7])
def test_plain_arithmetic_is_written_without_compiling_its_operations(size):
    """Instructions do what numba's functions do, to the bit, and no arity is compiled by itself."""
    exprs = ExprGraph()
    u = [exprs.argument(k) for k in range(size)]
    total, product = (exprs.node(op, u) for op in (scalar.add, scalar.mul))
    sizes, apart = exprs.node(changes.sizes, u), exprs.node(scalar.sub, (total, product))
    chosen = exprs.node(scalar.switch, (exprs.node(scalar.gt, u[:2]), apart, sizes))
    ratio = exprs.node(scalar.true_div, (chosen, exprs.node(scalar.sqr, (sizes,))))
    outputs = [exprs.node(scalar.neg, (ratio,)), exprs.node(scalar.reciprocal, (total,)), sizes]
    # A number of its own, so that nothing is read from a cache.
    number = float(time.time_ns())
    outputs.append(exprs.node(scalar.mul, (exprs.constant(np.float64(number)), u[0])))
    inputs = np.random.default_rng(size).normal(size=(20, size))
    found = run(compiled(outputs, size), inputs, width=4)
    add, product, length = inputs[:, 0].copy(), inputs[:, 0].copy(), np.abs(inputs[:, 0])
    for column in inputs.T[1:]:
        add, product, length = add + column, product * column, length + np.abs(column)
    way = np.where(inputs[:, 0] > inputs[:, 1], add - product, length)
    rest = 1.0 / add, length, number * inputs[:, 0]
    exact = np.stack([-(way / (length * length)), *rest], axis=1)
    np.testing.assert_array_equal(found, exact)
    arguments = [scalar.float64(f"u{k}") for k in range(size)]
    for op in (scalar.add, scalar.mul, changes.sizes):
        node = op.make_node(*arguments)
        assert not scalars._numba_operation(node)[0].signatures


def softplus_by_class(exprs):
    """Return a softplus of 2u or u - v as a flag says, and both of them."""
    flag, (u, v) = exprs.data(0, (), np.dtype("bool")), (exprs.argument(k) for k in range(2))
    inner = [exprs.node(scalar.add, (u, u)), exprs.node(scalar.sub, (u, v))]
    both = [exprs.node(scalar_math.softplus, (x,)) for x in inner]
    return exprs.node(scalar.switch, (flag, *both)), both


def n_softplus(outputs):
    nodes = make_composite(outputs, 2, data_leaves(outputs)).fgraph.apply_nodes
    return sum(isinstance(node.op, scalar_math.Softplus) for node in nodes)


def test_a_function_of_either_class_is_computed_once():
    chosen, _ = softplus_by_class(ExprGraph())
    inputs = np.array([[0.5, 2.0, 1.0], [0.5, 2.0, 0.0]])
    found = run(compiled([chosen], 2), inputs, width=1)
    np.testing.assert_allclose(found[:, 0], np.logaddexp(0.0, [1.0, -1.5]), rtol=1e-15)
    assert n_softplus([chosen]) == 1


def test_functions_that_are_needed_anyway_are_chosen_from():
    chosen, both = softplus_by_class(ExprGraph())
    assert n_softplus([chosen, *both]) == 2


def test_a_name_on_disk_is_of_one_arithmetic():
    """PyTensor's default reorders sums: whoever asks for a name first must not bring that in."""
    exprs = ExprGraph()
    parts = [exprs.argument(k) for k in range(3)]
    total = exprs.node(scalar.sub, (exprs.node(scalar.add, parts), exprs.constant(0.375)))
    composite = make_composite([total], 3, [])
    with pytensor.config.change_flags(numba__fastmath=True):
        scalars._operations.clear()
        scalars._graph_key(composite.fgraph)
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
            names.append(scalars._graph_key(make_composite(outputs, times * m, leaves).fgraph))
    return names


def test_expressions_are_the_same_in_every_process():
    code = (
        "import json; from compiled.test_scalars import *; "
        "print(json.dumps({name: names_on_disk(name) for name in FAMILIES}))"
    )
    there = printed("-c", code, PYTHONHASHSEED="4242")
    assert there == {name: names_on_disk(name) for name in FAMILIES}
    assert None not in there["normal_mixture"]
