"""A factorization as compiled functions, each made when it is first used."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numba import carray, types
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.compiled.form_rows import FormRows, PlacedFormRows, StoredFormRows
from pymc_minibatch_mh.compiled.graphs import (
    PRIOR_ADDRESSES,
    GraphRows,
    compiled_on_position,
    numba_options,
    row_source,
)
from pymc_minibatch_mh.compiled.prior import GraphPrior, Prior, ScalarPrior, compiled_slopes
from pymc_minibatch_mh.compiled.scalar_functions import INTEGERS, NUMBERS, called_by_library
from pymc_minibatch_mh.errors import BoundsError, UnsupportedModelError
from pymc_minibatch_mh.expressions.graph import LoweringError
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.native.library import FunctionAt
from pymc_minibatch_mh.structure.null_space import likelihood_null_space
from pymc_minibatch_mh.structure.random_effects import (
    ElementPrior,
    Elements,
    NotSeparableError,
    elements_of,
    prior_of_elements,
)
from pymc_minibatch_mh.structure.row_function import WAY_ON, RowFunction, row_functions

#: Type of the densities of elements: see ``mh.h``.
ELEMENT_DENSITY = types.void(NUMBERS, INTEGERS, NUMBERS)
#: Compiled rows where they lie in this process.
PlacedRows = PlacedFormRows | StoredFormRows | GraphRows


class CompiledModel:
    """The parts of a split model, compiled, wherever the rows lie."""

    def __init__(
        self, factorization: Factorization, compile_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        self.factorization = factorization
        if compile_kwargs is not None:
            # Refused here if invalid, whether or not a graph is compiled with them.
            numba_options(compile_kwargs)
        self.compile_kwargs = compile_kwargs

    @cached_property
    def row_functions(self) -> list[RowFunction] | BoundsError:
        """Rows as functions of a few linear forms, or why they are none."""
        try:
            return row_functions(self.factorization)
        except BoundsError as reason:
            return reason

    @cached_property
    def null_space(self) -> np.ndarray:
        """Directions along which no row changes and a step moves, shape (n, d)."""
        return likelihood_null_space(self.factorization, self.row_functions)

    @cached_property
    def rows(self) -> FormRows | GraphRows:
        """Rows by their linear forms if they have some, else as a graph of all parameters.

        Raises an UnsupportedModelError if they have none and are stored: a graph reads rows in
        memory.
        """
        if not isinstance(self._forms, str):
            return self._forms
        source = row_source(self.factorization)
        if not source.in_memory:
            raise UnsupportedModelError(
                f"{self._forms.removesuffix(WAY_ON).rstrip()} Data of Rows(...) need a likelihood "
                "for which bounds can be derived. Give the model arrays in memory, and use "
                "BarkerMinibatchMH() or PenaltyMH()."
            )
        return GraphRows(self.factorization, source, self.compile_kwargs)

    def require_derivatives(self) -> None:
        """Refuse an operation without derivatives, by graphs alone, before any is compiled.

        Raises an UnsupportedModelError that names it.
        """
        if isinstance(self.rows, GraphRows):
            _ = self.rows.derivatives
        if isinstance(self.prior, GraphPrior):
            _ = self.prior.gradient

    @property
    def why_graph(self) -> str:
        """Why rows are a graph of all parameters; empty where they are functions of forms."""
        return self._forms if isinstance(self._forms, str) else ""

    @cached_property
    def _forms(self) -> FormRows | str:
        if isinstance(self.row_functions, BoundsError):
            return str(self.row_functions)
        try:
            return FormRows(self.row_functions, self.factorization.size)
        except LoweringError as error:
            # An operation whose derivatives only PyTensor's own graph has.
            return str(error)

    @cached_property
    def element_prior(self) -> ElementPrior:
        """Elements that data choose and their prior; NotSeparableError where they depend."""
        if isinstance(self.row_functions, BoundsError):
            raise NotSeparableError(str(self.row_functions))
        found = elements_of(self.factorization, self.row_functions)
        return prior_of_elements(self.factorization, found)

    @property
    def elements(self) -> Elements:
        """The elements that data choose; NotSeparableError where they are not independent."""
        return self.element_prior.elements

    @cached_property
    def element_densities(self) -> list[FunctionAt]:
        """The prior of each element of each factor, compiled (``mh_element_density``)."""
        return [self._of_elements(graph) for graph in self.element_prior.densities]

    def _of_elements(self, density: Variable) -> FunctionAt:
        size = self.factorization.size
        graph = compiled_on_position(self.factorization, density, self.compile_kwargs)

        def densities(theta, context, out):
            (value,) = graph(carray(theta, size), carray(context, PRIOR_ADDRESSES))
            for k in range(value.size):
                out[k] = value[k]

        return called_by_library(densities, ELEMENT_DENSITY, "mh_element_density")

    @cached_property
    def prior_slopes(self) -> Callable:
        """Value and gradient of the prior part, compiled: (position, context) -> shape (1 + d,)."""
        if isinstance(self.prior, GraphPrior):
            return self.prior.slopes
        return compiled_slopes(self.factorization, self.compile_kwargs)

    @cached_property
    def prior(self) -> Prior:
        """The prior part as one expression of scalars if it is small, else as a graph."""
        try:
            return ScalarPrior(self.factorization)
        except LoweringError:
            return GraphPrior(self.factorization, self.compile_kwargs)
