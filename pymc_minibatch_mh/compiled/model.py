"""A factorization as compiled functions, each compiled at its first use."""

from functools import cached_property

import numpy as np
from numba import carray
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.compiled.form_rows import FormRows, PlacedFormRows, StoredFormRows
from pymc_minibatch_mh.compiled.graphs import (
    PRIOR_ADDRESSES,
    CompileOptions,
    GraphRows,
    compiled_on_position,
    numba_options,
    row_source,
)
from pymc_minibatch_mh.compiled.group_rows import GroupRows
from pymc_minibatch_mh.compiled.prior import GraphPrior, Prior, ScalarPrior
from pymc_minibatch_mh.compiled.scalar_functions import WRITTEN_DENSITY, called_by_library
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.errors import BoundsError, UnsupportedModelError
from pymc_minibatch_mh.expressions.graph import LoweringError
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.native.library import FunctionAt
from pymc_minibatch_mh.structure.null_space import likelihood_null_space
from pymc_minibatch_mh.structure.random_effects import (
    LevelPrior,
    NotSeparableError,
    RandomEffects,
    find_random_effects,
    split_prior,
)
from pymc_minibatch_mh.structure.row_function import (
    USE_UNBOUNDED_SAMPLERS,
    RowFunction,
    row_functions,
)

#: Compiled observations with the addresses of their data in this process.
PlacedRows = PlacedFormRows | StoredFormRows | GraphRows | GroupRows


class CompiledModel:
    """Compiled parts of a factorization, for data in memory or in storage."""

    def __init__(self, factorization: Factorization, compile_kwargs: CompileOptions = None) -> None:
        self.factorization = factorization
        if compile_kwargs is not None:
            # Invalid arguments raise an error here, even if no graph needs them.
            numba_options(compile_kwargs)
        self.compile_kwargs = compile_kwargs

    def without_functions(self) -> "CompiledModel":
        """The same model without compiled functions."""
        return CompiledModel(self.factorization, self.compile_kwargs)

    def make_source(self) -> ArrayRows:
        """Observations with values of the other variables of their own."""
        return row_source(self.factorization)

    @cached_property
    def row_functions(self) -> list[RowFunction] | BoundsError:
        """Observations as functions of a few linear predictors, or the reason why not."""
        try:
            return row_functions(self.factorization)
        except BoundsError as reason:
            return reason

    @cached_property
    def null_space(self) -> np.ndarray:
        """Null space of the likelihood within the sampled coordinates, shape (n, d)."""
        return likelihood_null_space(self.factorization, self.row_functions)

    @cached_property
    def rows(self) -> FormRows | GraphRows:
        """Observations as functions of linear predictors if possible, otherwise as graphs."""
        if not isinstance(self._as_forms, str):
            return self._as_forms
        source = row_source(self.factorization)
        if not source.in_memory:
            raise UnsupportedModelError(
                f"{self._as_forms.removesuffix(USE_UNBOUNDED_SAMPLERS).rstrip()} Data of Rows(...) "
                "need a likelihood for which bounds can be derived. Give the model arrays in "
                "memory, and use BarkerMinibatchMH() or PenaltyMH()."
            )
        return GraphRows(self.factorization, source, self.compile_kwargs)

    def require_derivatives(self) -> None:
        """Raise an UnsupportedModelError, before compilation, if there are no derivatives."""
        if isinstance(self.rows, GraphRows):
            _ = self.rows.derivatives
        if isinstance(self.prior, GraphPrior):
            _ = self.prior.gradient

    @property
    def why_graph(self) -> str:
        """Reason for using a graph of all parameters; empty if linear predictors are used."""
        return self._as_forms if isinstance(self._as_forms, str) else ""

    @cached_property
    def _as_forms(self) -> FormRows | str:
        if isinstance(self.row_functions, BoundsError):
            return str(self.row_functions)
        try:
            return FormRows(self.row_functions, self.factorization.size)
        except LoweringError as error:
            # Some operations have derivatives only in PyTensor, so the graph is used.
            return str(error)

    @cached_property
    def element_prior(self) -> LevelPrior:
        """Random effects with their prior; NotSeparableError if they are dependent."""
        if self.why_graph or isinstance(self.row_functions, BoundsError):
            raise NotSeparableError(self.why_graph)
        found = find_random_effects(self.factorization, self.row_functions)
        return split_prior(self.factorization, found)

    @property
    def elements(self) -> RandomEffects:
        """Random effects; NotSeparableError if they are not conditionally independent."""
        return self.element_prior.elements

    @cached_property
    def element_densities(self) -> list[FunctionAt]:
        """Compiled prior of each random effect of each factor (``mh_element_density``)."""
        return [self._of_elements(graph) for graph in self.element_prior.densities]

    def _of_elements(self, density: Variable) -> FunctionAt:
        size = self.factorization.size
        graph = compiled_on_position(self.factorization, density, self.compile_kwargs)

        def write_densities(theta, context, out):
            (value,) = graph(carray(theta, size), carray(context, PRIOR_ADDRESSES))
            for k in range(value.size):
                out[k] = value[k]

        return called_by_library(write_densities, WRITTEN_DENSITY, "mh_element_density")

    @cached_property
    def prior(self) -> Prior:
        """Prior part as a scalar expression if it is small, otherwise as a graph."""
        try:
            return ScalarPrior(self.factorization)
        except LoweringError:
            return GraphPrior(self.factorization, self.compile_kwargs)
