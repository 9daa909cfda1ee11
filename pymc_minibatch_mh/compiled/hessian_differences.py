"""Third derivatives of rows as differences of compiled Hessians."""

from collections.abc import Sequence
from typing import NamedTuple

from pymc_minibatch_mh.compiled.scalar_functions import looped_by_library
from pymc_minibatch_mh.expressions.graph import Expr
from pymc_minibatch_mh.expressions.patterns import operands_first
from pymc_minibatch_mh.native.library import FunctionAt, LaidOut

#: Maximum number of operations in compiled third derivatives: 2,300 took a minute.
MAX_THIRDS = 500


def count_operations(exprs: Sequence[Expr]) -> int:
    """Number of operations on parameters in expressions; each counts once."""
    return sum(not x.is_data for x in operands_first(exprs))


class HessianRows(NamedTuple):
    """Rows with a compiled Hessian: ``mh_hessian_rows``."""

    n_arguments: int
    n_taken: int
    slopes: FunctionAt


def thirds_by_differences(slopes: FunctionAt, n_arguments: int, n_leaves: int) -> FunctionAt:
    """Third derivatives in the arguments, from compiled values, gradients and Hessians."""
    record = LaidOut("mh_hessian_rows", HessianRows(n_arguments, n_leaves, slopes))
    return looped_by_library("mh_thirds_by_differences", "mh_room_of_hessians", record)
