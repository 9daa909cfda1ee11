"""The log-density of everything that is not subsampled, and its derivatives."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numba import njit
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode, optdb
from pytensor.gradient import grad, pushforward
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from pymc_minibatch_mh.kernels.signatures import LOGP_SIGNATURE
from pymc_minibatch_mh.model.compiled.graphs import compiled_graph, differentiable, read_others
from pymc_minibatch_mh.model.reading.derived import AS_SAMPLED
from pymc_minibatch_mh.model.reading.split import Split

_REWRITES = RewriteDatabaseQuery(
    include=["canonicalize", "stabilize", "specialize", "local_check_parameter_to_ninf_switch"],
    exclude=["fusion", "inplace", "BlasOpt", "cxx_only"],
)
#: Run operation by operation, with the rewrites that keep numbers finite.
_STABLE = Mode(linker="py", optimizer=optdb.query(_REWRITES))
_AS_WRITTEN = Mode(linker="py", optimizer=AS_SAMPLED)


class GraphPrior:
    """The prior part of a split model.

    Parameters
    ----------
    split
        The model.
    compile_kwargs
        As in :func:`compiled_graph`.
    """

    def __init__(self, split: Split, compile_kwargs: Mapping[str, Any] | None = None) -> None:
        self._split = split
        self._compile_kwargs = compile_kwargs

    def compiled(self) -> Callable:
        """Compile the log-density (``LOGP``)."""
        return self._compiled

    @cached_property
    def _compiled(self) -> Callable:
        split = self._split
        theta = pt.vector("position", dtype="float64", shape=(split.size,))
        context = pt.vector("context", dtype="int64")
        values = {split.position: theta, split.other_values: read_others(split, context)}
        (value,) = clone_replace([split.prior], values)
        graph = compiled_graph(split, [theta, context], [value], self._compile_kwargs)

        @njit(LOGP_SIGNATURE, nogil=True)
        def logp(theta, context):
            (value,) = graph(theta, context)
            return value.item()

        return logp

    def derivatives(
        self, position: np.ndarray, others: np.ndarray, *, hessian: bool
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return value, gradient and Hessian; the Hessian is empty unless asked for."""
        # PyTensor's loops in Python take no empty arrays.
        directions = np.eye(position.size)[: position.size if hessian else 1]
        found = self._as_written(position, others, directions)
        if not all(np.isfinite(x).all() for x in found):
            found = self._stable(position, others, directions)
        value, gradient, products = found
        if not hessian:
            return float(value), gradient, np.empty((0, 0))
        # Without curvature of its own, as of Laplace priors alone, there is one product for all.
        return float(value), gradient, np.broadcast_to(products, directions.shape)

    @cached_property
    def _as_written(self) -> Callable:
        # Nothing is compiled or rewritten for what is evaluated a few dozen times.
        return self._in_python(_AS_WRITTEN)

    @cached_property
    def _stable(self) -> Callable:
        return self._in_python(_STABLE)

    def _in_python(self, mode: Mode) -> Callable:
        split = self._split
        theta, others = split.position, split.other_values
        direction = pt.vector("direction", dtype="float64", shape=(split.size,))
        with differentiable(split):
            gradient = grad(split.prior, theta, disconnected_inputs="ignore")
            product = pushforward(gradient, theta, direction, disconnected_outputs="ignore")
        directions = pt.matrix("directions", dtype="float64", shape=(None, split.size))
        outputs = [split.prior, gradient, vectorize_graph(product, {direction: directions})]
        function = pytensor.function(
            [theta, others, directions], outputs, mode=mode, on_unused_input="ignore"
        )

        def quiet(*inputs: np.ndarray) -> list[np.ndarray]:
            try:
                with np.errstate(all="ignore"):
                    return list(function(*inputs))
            except ParameterValueError:
                # A scale that has underflowed to zero: samplers read it as a density of zero.
                nothing = np.full(inputs[0].shape, np.nan)
                return [np.array(-np.inf), nothing, np.full(inputs[2].shape, np.nan)]

        return quiet
