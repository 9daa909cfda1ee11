"""Special functions of second derivatives, and operations that have no compiled form."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy.special import polygamma

from every import every
from likelihood.evaluation import split_of
from pymc_minibatch_mh.compiled.graphs import compiled_graph
from pymc_minibatch_mh.errors import UnsplittableModelError
from pymc_minibatch_mh.kernels.special import trigamma
from zoo import poisson


@every(("low", "high"), [(1e-8, 1e-2), (1e-2, 1.0), (1.0, 30.0), (30.0, 1e8)])
def test_trigamma_is_that_of_scipy(low, high):
    points = np.geomspace(low, high, 2_000)
    ours = np.array([trigamma(x) for x in points])
    assert np.abs(ours / polygamma(1, points) - 1.0).max() < 2e-14


def test_trigamma_of_negative_numbers_follows_from_the_recurrence():
    points = np.array([-3.7, -2.5, -1.2, -0.3])
    ours = np.array([trigamma(x) - trigamma(x + 1.0) for x in points])
    assert np.allclose(ours, 1.0 / points**2, rtol=1e-10)


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
    with pytest.raises(UnsplittableModelError, match=r"'counts'.*OnlyInPython.*pm\.NUTS"):
        compiled_graph(parts, [x], [OnlyInPython()(x)], None)
