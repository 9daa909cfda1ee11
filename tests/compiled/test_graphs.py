import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from likelihood.evaluation import split_of
from pymc_minibatch_mh.compiled.graphs import compiled_graph
from pymc_minibatch_mh.errors import UnsupportedModelError
from zoo import poisson


class OnlyInPython(Op):
    """An operation that numba cannot compile."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0]


def test_an_operation_without_a_compiled_form_is_refused_by_name():
    parts = split_of(poisson())
    x = pt.vector("x", dtype="float64")
    with pytest.raises(UnsupportedModelError, match=r"'counts'.*OnlyInPython.*pm\.NUTS"):
        compiled_graph(parts, [x], [OnlyInPython()(x)], None)
