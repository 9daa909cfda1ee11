"""A split model as compiled functions, each made when it is first asked for."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from pymc_minibatch_mh.errors import BoundsError, UnsplittableModelError
from pymc_minibatch_mh.model.compiled.form_rows import FormRows
from pymc_minibatch_mh.model.compiled.graph_prior import GraphPrior
from pymc_minibatch_mh.model.compiled.graphs import GraphRows, numba_options, row_source
from pymc_minibatch_mh.model.compiled.scalar_prior import ScalarPrior
from pymc_minibatch_mh.model.compiled.unread import unread_directions
from pymc_minibatch_mh.model.reading.split import Split
from pymc_minibatch_mh.model.row.cells import LoweringError
from pymc_minibatch_mh.model.row.function import WAY_ON, RowFunction, row_functions


class CompiledModel:
    """The parts of a split model, compiled, wherever the rows lie.

    Parameters
    ----------
    split
        The model.
    compile_kwargs
        Passed on to :func:`pytensor.function`.
    """

    def __init__(self, split: Split, compile_kwargs: Mapping[str, Any] | None) -> None:
        self.split = split
        if compile_kwargs is not None:
            # Refused here if invalid, whether or not a graph is compiled with them.
            numba_options(compile_kwargs)
        self.compile_kwargs = compile_kwargs

    @cached_property
    def row_functions(self) -> list[RowFunction] | BoundsError:
        """Rows as functions of a few linear forms, or why they are none."""
        try:
            return row_functions(self.split)
        except BoundsError as reason:
            return reason

    @cached_property
    def unread(self) -> np.ndarray:
        """Directions along which no row changes and a step moves, shape (n, d)."""
        return unread_directions(self.split, self.row_functions)

    @cached_property
    def rows(self) -> FormRows | GraphRows:
        """Rows by their linear forms if they have some, else as a graph of all parameters.

        Raises
        ------
        UnsplittableModelError
            If they have none and are stored: a graph reads rows where they lie in memory.
        """
        if not isinstance(self._forms, str):
            return self._forms
        source = row_source(self.split)
        if not source.in_memory:
            raise UnsplittableModelError(
                f"{self._forms.removesuffix(WAY_ON).rstrip()} Data of Rows(...) are computed with "
                "by what bounds are derived from. Give the model arrays in memory, and use "
                "BarkerMinibatchMH() or PenaltyMH()."
            )
        return GraphRows(self.split, source, self.compile_kwargs)

    @property
    def why_graph(self) -> str:
        """Why rows are a graph of all parameters; empty where they are functions of forms."""
        return self._forms if isinstance(self._forms, str) else ""

    @cached_property
    def _forms(self) -> FormRows | str:
        if isinstance(self.row_functions, BoundsError):
            return str(self.row_functions)
        try:
            return FormRows(self.row_functions)
        except LoweringError as error:
            # An operation whose derivatives only PyTensor's own graph has.
            return str(error)

    @cached_property
    def prior(self) -> ScalarPrior | GraphPrior:
        """The prior part as one expression of scalars if it is small, else as a graph."""
        try:
            return ScalarPrior(self.split)
        except LoweringError:
            return GraphPrior(self.split, self.compile_kwargs)
