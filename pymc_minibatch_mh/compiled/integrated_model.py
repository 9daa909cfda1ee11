"""Compiled model of all parameters but the effects of small groups, which are integrated out."""

from functools import cached_property

import numpy as np

from pymc_minibatch_mh.compiled.graphs import CompileOptions
from pymc_minibatch_mh.compiled.group_rows import (
    GroupLayout,
    GroupRows,
    Nodes,
    StoredGroupRows,
    StoredGroups,
)
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.structure.random_effects import LevelPrior, NotSeparableError
from pymc_minibatch_mh.structure.row_function import RowFunction


class IntegratedModel(CompiledModel):
    """Compiled parts of a factorization whose observations are groups."""

    def __init__(
        self, factorization: Factorization, layout: GroupLayout, nodes: Nodes,
        compile_kwargs: CompileOptions = None,
    ) -> None:  # fmt: skip
        super().__init__(factorization, compile_kwargs)
        self.layout, self.nodes = layout, nodes

    def without_functions(self) -> "IntegratedModel":
        """The same model without compiled functions."""
        return IntegratedModel(self.factorization, self.layout, self.nodes, self.compile_kwargs)

    def at_nodes(self, nodes: Nodes) -> "IntegratedModel":
        """The same model at other nodes, with the functions that are compiled."""
        other = IntegratedModel(self.factorization, self.layout, nodes, self.compile_kwargs)
        other.__dict__.update({**self.__dict__, "nodes": nodes, "rows": self.rows.at_nodes(nodes)})
        return other

    def some(self, numbers: np.ndarray) -> "IntegratedModel":
        """The same model with some of the groups, and the functions that are compiled."""
        rows = self.rows.some(numbers)
        other = IntegratedModel(self.factorization, rows.layout, rows.nodes, self.compile_kwargs)
        other.__dict__.update({**self.__dict__, **vars(other), "rows": rows})
        return other

    def make_source(self) -> ArrayRows:
        """Numbers of the groups, without columns."""
        n_others = self.factorization.other_values.type.shape[0]
        kind = StoredGroups if self.layout.is_stored else ArrayRows
        return kind((), [self.layout.n_groups], n_others)

    @cached_property
    def rows(self) -> GroupRows:  # type: ignore[override]
        """Groups as observations."""
        kind = StoredGroupRows if self.layout.is_stored else GroupRows
        return kind(self.layout, self.nodes, self.make_source())

    @cached_property
    def row_functions(self) -> list[RowFunction] | BoundsError:
        """Reason why a group is no function of a few linear predictors."""
        return BoundsError("groups are sums over the nodes of their effects")

    @cached_property
    def null_space(self) -> np.ndarray:
        """Coordinates that no group depends on, as unit vectors of shape (n, d)."""
        return np.eye(self.layout.size)[~self.layout.is_read]

    @cached_property
    def element_prior(self) -> LevelPrior:
        """NotSeparableError: the effects are integrated out."""
        raise NotSeparableError("the effects are integrated out")
