"""Sources of bounds: derived from the model, or given by a user."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_minibatch_mh.bounds.block_tables import AnyTables, BlockBounds, BlockTables
from pymc_minibatch_mh.bounds.bound_check import BoundedPosterior, exceeds_bound
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.bounds.jets import require_rules
from pymc_minibatch_mh.bounds.over_nodes import NodeBoundsPass
from pymc_minibatch_mh.bounds.tables import Tables, heavy_rows
from pymc_minibatch_mh.bounds.user_bounds import Bounds, tell_of_unverified_bounds
from pymc_minibatch_mh.compiled.graphs import term_names
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import BoundsError, SettingError
from pymc_minibatch_mh.native.bound_tables import KIND
from pymc_minibatch_mh.native.moves import CONSTANT, ENDS
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.node_rule import GroupTarget
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.row_function import RowFunction

GivenBounds = Bounds | Callable[[dict[str, np.ndarray]], Bounds]


def functions_of(target: Target | CompiledModel) -> list[RowFunction]:
    """Row functions of a model; BoundsError if their derivatives cannot be enclosed."""
    functions = target.row_functions
    if isinstance(functions, BoundsError):
        raise functions
    return functions


def bounds_pass_of(target: Target, reference: Reference) -> BoundsPass:
    """Computation of the bounds of all rows around a centre, where the rows are stored."""
    kind = BoundsPass if target.source.in_memory else BlockBounds
    parts = target.factorization
    names = [parts.name_at(k) for k in range(parts.size)]
    return kind(functions_of(target), reference, support_of(target), names)


class BoundSource(ABC):
    """Source of the bounds of all rows, with the check of rows against them."""

    #: Whether bounds are derived from the model and shared by its steps; otherwise they are custom.
    derived: bool = True
    #: Texts of reports, empty for the defaults: meaning of the tables; reason for the order.
    meaning: str = ""
    order_reason: str = ""

    def require_possible(self, model: CompiledModel) -> None:
        """Raise BoundsError before any search if the model graph rules these bounds out."""
        return

    @abstractmethod
    def tables(self, target: Target, reference: Reference) -> AnyTables:
        """Bounds of all rows around a centre; BoundsError if a row has none."""

    def has_made(self, tables: AnyTables) -> bool:
        """Whether another step's tables on the model are of the kind that this source makes."""
        return tables.headers[0, KIND] not in (CONSTANT, ENDS)

    def audit(
        self, bounded: BoundedPosterior, rng: np.random.Generator, rows: np.ndarray | None = None
    ) -> str:
        """Description of a row that exceeds its bound in typical proposals; else ""."""
        return bounded.objection(rng, rows)

    def excess(self, ratio: float) -> tuple[str, str]:
        """Phrases of an error message: how far a row exceeds its bound, and the setting's name."""
        return exceeds_bound(ratio)


class DerivedBounds(BoundSource):
    """Bounds of remainders, derived from the model."""

    def require_possible(self, model: CompiledModel) -> None:
        """Raise BoundsError for operations without a bounding rule."""
        for function in functions_of(model):
            require_rules(function)

    def tables(self, target: Target, reference: Reference) -> AnyTables:
        """Bounds by interval arithmetic, of single rows in memory or of blocks of stored rows."""
        found: AnyTables = bounds_pass_of(target, reference).tables()
        return (
            found if isinstance(found, BlockTables) else with_heavy_rows(target, reference, found)
        )


class NodeBounds(DerivedBounds):
    """Bounds of groups' remainders, derived from their rows at all nodes."""

    def tables(self, target: Target, reference: Reference) -> AnyTables:
        """Bounds of all groups around a centre."""
        assert isinstance(target, GroupTarget)
        return NodeBoundsPass(target.group_rows, reference).tables()

    def has_made(self, tables: AnyTables) -> bool:
        """Whether tables hold bounds of groups' remainders."""
        return bool(tables.headers[0, KIND] in (CONSTANT, ENDS))


@dataclass(frozen=True, eq=False)
class UserSource(BoundSource):
    """The user's values for all rows, or a function that returns them for a centre."""

    value: Any
    derived = False
    #: Type of the value, name of its setting, and its constructor call for messages.
    kind: ClassVar[type]
    setting: ClassVar[str]
    call: ClassVar[str]

    def given(self, target: Target, reference: Reference) -> Any:
        """Value of the setting, or the value that its function returns for the centre."""
        if target.taylor_order and target.rows.without_second:
            raise SettingError(
                f"{self.setting}= is of exact remainders, but second derivatives of "
                f"{target.rows.without_second} are differences. Use taylor_order=0."
            )
        given = self.value
        if not isinstance(given, self.kind):
            given = given(target.factorization.unravel(reference.centre, {}))
        if not isinstance(given, self.kind):
            raise SettingError(
                f"{self.setting}= is a function that returned a {type(given).__name__}. Return "
                f"{self.call} for the centre that it is called with."
            )
        tell_of_unverified_bounds(term_names(target.factorization), self.setting)
        return given


class UserBounds(UserSource):
    """Custom bounds."""

    kind, setting, call = Bounds, "bounds", "Bounds(c, metric)"

    def tables(self, target: Target, reference: Reference) -> Tables:
        """Bounds as the user gives them, unverified."""
        bounds = self.given(target, reference)
        return with_heavy_rows(target, reference, bounds.tables(target.source.n_rows))


def bound_source(bounds: GivenBounds | None) -> BoundSource:
    """Source of the user's bounds, or of derived bounds if `bounds` is None."""
    return DerivedBounds() if bounds is None else UserBounds(bounds)


def support_of(target: Target | CompiledModel) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of the coordinates, shape (d,) each."""
    return target.factorization.lower, target.factorization.upper


def with_heavy_rows(target: Target, reference: Reference, tables: Tables) -> Tables:
    """Tables in which influential rows are always evaluated; unchanged without a mode search."""
    if target.covariance is not None:
        return tables
    heavy = heavy_rows(tables, BoundedPosterior(target, reference, tables).seeded_moves())
    return tables.reading_always(np.union1d(tables.heavy, heavy)) if heavy.size else tables
