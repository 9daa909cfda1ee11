"""Factorization of a model: a prior part times conditionally independent observations.

Bijections replace some of the model's own variables by other coordinates. The density includes
their exact Jacobian and draws are mapped back, so the model's posterior does not change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.data import MinibatchOp
from pymc.distributions.simulator import SimulatorRV
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.basic import as_symbolic
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.math import variadic_add
from pytensor.xtensor.type import XTensorType

from pymc_minibatch_mh.errors import UnsupportedModelError, refusal_message
from pymc_minibatch_mh.model.bijection import Bijection, IndexedValues
from pymc_minibatch_mh.model.constant_data import (
    as_plain_tensor,
    with_dims_removed,
    with_double_constants,
)
from pymc_minibatch_mh.model.independence import Likelihood, data_values
from pymc_minibatch_mh.model.index_range import require_indices_in_range
from pymc_minibatch_mh.model.inputs import ModelArrays, join_terms, resolve_model, value_variables
from pymc_minibatch_mh.model.layout import (
    Block,
    Point,
    cut_blocks,
    lay_out,
    natural_values,
    ravel_blocks,
    split_vector,
    support_of_block,
    total_size,
)
from pymc_minibatch_mh.model.potentials import (
    RowsOfPotential,
    evaluated_in_full,
    read_potentials,
    terms_of_potentials,
)
from pymc_minibatch_mh.model.terms import (
    MIN_ROWS,
    log_densities,
    read_term,
    require_alone,
    subsampled_variables,
)
from pymc_minibatch_mh.model.weights import Weights, weigh_terms

#: Number of values in a block that fits in the cache.
_CACHED = 2**16


def _apply_changes(
    x: np.ndarray,
    changes: Sequence[Callable[..., Sequence[IndexedValues]]],
    overwritten: bool = False,
) -> np.ndarray:
    """Array of shape (..., d) after coordinate changes, computed in blocks that fit the cache."""
    if not changes:
        return x
    found, size = np.ascontiguousarray(x) if overwritten else x.copy(), x.shape[-1]
    lines, few = found.reshape(-1, size), max(1, _CACHED // size)
    for change in changes:
        for first in range(0, len(lines), few):
            some = lines[first : first + few]
            for places, values in change(some.T.copy()):
                some[:, places] = values.T
    return found


@dataclass(frozen=True, eq=False)
class Factorization:
    """Log-density of a model as a prior part plus a sum over observations."""

    #: Ravelled unconstrained value variables, shape (d,): first the variables of other steps
    #: that observations depend on, then, from coordinate `first` on, the variables of this step.
    position: Variable
    blocks: tuple[Block, ...]
    first: int
    #: Ravelled value variables outside the position, shape (n,): variables of other steps that
    #: are discrete, or that no observation depends on.
    other_values: Variable
    others: tuple[Block, ...]
    #: Scalar: priors, Jacobians, potentials and the likelihood terms that are not subsampled.
    prior: Variable
    #: Subsampled likelihood terms, in `position` and `other_values`.
    terms: tuple[Likelihood, ...]
    #: Lower and upper ends of the support of every coordinate, shape (d,).
    lower: np.ndarray
    upper: np.ndarray
    #: Free variables of the blocks on the model's natural scale, by name.
    natural: dict[str, Variable]
    #: Constants and shared variables of the model that the factorization depends on.
    arrays: ModelArrays
    #: Potentials that every update evaluates in full: name -> number of their rows, and why.
    in_full: Mapping[str, tuple[int, str]]
    #: Bijections of a few coordinates each; empty if the position is the value variables.
    maps: tuple[Bijection, ...] = ()
    #: Variables in products of parameters in observations, with reasons why they are not mapped.
    refused: tuple[tuple[str, str], ...] = ()
    #: The same density in the model's own value variables; None if there are no bijections.
    unmapped: "Factorization | None" = None
    #: Blocks of effects that are integrated out: they are not part of the position.
    integrated: tuple[Block, ...] = ()

    @property
    def size(self) -> int:
        """Number of dimensions d."""
        return self.blocks[-1].stop

    @property
    def coordinate_names(self) -> list[str]:
        """Name of every coordinate of the position, such as ``beta[3]``."""
        return [name for block in self.blocks for name in block.names]

    @property
    def real_blocks(self) -> list[tuple[Block, str]]:
        """Blocks of this step that can take any real value, with the names of their variables."""
        return [
            (block, name)
            for block, name in zip(self.blocks, self.natural, strict=True)
            if self.first <= block.start < block.stop
            and np.isneginf(self.lower[block.start : block.stop]).all()
            and np.isposinf(self.upper[block.start : block.stop]).all()
        ]

    def name_at(self, place: int) -> str:
        """Name of the free variable that a coordinate belongs to."""
        names = zip(self.blocks, self.natural, strict=True)
        return next(name for block, name in names if place < block.stop)

    @property
    def boundary(self) -> list[int]:
        """Mapped coordinates with lower bound 0; the mode may lie on this boundary."""
        return sorted({k for one in self.maps if one.support for k in one.moved_indices})

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Positions for ravelled value variables, of the same shape (..., d)."""
        return _apply_changes(values, [one.forward for one in self.maps])

    def values(self, positions: np.ndarray, overwritten: bool = False) -> np.ndarray:
        """Ravelled value variables, shape (..., d); `overwritten` allows reuse of memory."""
        return _apply_changes(positions, [one.inverse for one in reversed(self.maps)], overwritten)

    def in_support(self, positions: np.ndarray) -> np.ndarray:
        """Positions in the support: reflections of positive coordinates at their ends."""
        found, ends = positions.copy(), self.boundary
        low, high = self.lower[ends], self.upper[ends]
        inside = low + np.abs(found[..., ends] - low)
        found[..., ends] = low + np.abs(np.minimum(inside, 2.0 * high - inside) - low)
        return found

    @property
    def support_of_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the support of the ravelled value variables, shape (d,) each."""
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[self.boundary], upper[self.boundary] = -np.inf, np.inf
        return lower, upper

    def log_jacobian(self, position: np.ndarray) -> float:
        """Logarithm of the Jacobian |∂ values / ∂ position|, a summand of the prior part."""
        total = 0.0
        for one in reversed(self.maps):
            total += float(one.log_jacobian(position))
            position = _apply_changes(position, [one.inverse])
        return total

    def ravel(self, point: Point) -> np.ndarray:
        """Position of a point, which maps names of value variables to arrays."""
        return self.positions(self.ravel_values(point))

    def ravel_values(self, point: Point) -> np.ndarray:
        """Values at a point of the position's value variables, shape (d,)."""
        return ravel_blocks(self.blocks, point)

    def ravel_others(self, point: Point) -> np.ndarray:
        """Values of the variables outside the position, at a point."""
        return ravel_blocks(self.others, point)

    def unravel(self, position: np.ndarray, point: Point) -> dict[str, np.ndarray]:
        """Copy of `point` with the value variables replaced by those of `position`."""
        return {**point, **self.split_by_name(self.values(position))}

    def draws(self, positions: np.ndarray) -> "WholeDraws":
        """Value variables at draws; `positions`, shape (..., d), are overwritten."""
        return WholeDraws(self, self.values(positions, overwritten=True))

    def split_by_name(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Ravelled value variables, shape (..., d), split by name."""
        return cut_blocks(self.blocks, values)

    @property
    def discrete_in_rows(self) -> list[str]:
        """Names of the discrete variables that observations depend on."""
        rows = set(ancestors([term.logp for term in self.terms]))
        if self.other_values not in rows:
            return []
        return [block.name for block in self.others if np.dtype(block.variable.dtype).kind != "f"]


class WholeDraws(NamedTuple):
    """Factorization of all variables, and their value variables at draws, shape (..., d)."""

    factorization: Factorization
    values: np.ndarray


def factorize(
    model: pm.Model,
    vars: Sequence[Variable],
    observed: Sequence[str] | None = None,
    *,
    weights: Weights | None = None,
    observation_dims: Sequence[str] = (),
    initial_point: dict[str, np.ndarray] | None = None,
    min_rows: int = MIN_ROWS,
) -> Factorization:
    """Split the log-density of `model` into a prior part and per-observation terms.

    Parameters
    ----------
    model
        A PyMC model. It is not changed.
    vars
        Continuous value variables to sample. Other steps update the rest.
    observed
        Names of the observed variables and potentials to subsample. By default every observed
        variable with at least `min_rows` observations, and sums over so many rows in potentials.
    weights
        Weights of the observations' log-likelihoods: name -> array of shape (N,), or the
        array if one variable is subsampled.
    observation_dims
        Names of dims along which observations lie; by default they lie on the first axis.
    initial_point
        Point with the shapes of the value variables; by default the model's.
    min_rows
        Observed variables with fewer observations belong to the prior part.

    Raises
    ------
    UnsupportedModelError
        If observations cannot be proven independent given the parameters.
    SettingError
        If `observed`, `weights` or `observation_dims` do not fit the model.

    Examples
    --------
    >>> parts = factorize(model, model.value_vars)
    >>> [(term.name, term.n_rows) for term in parts.terms]
    [('late', 2000)]
    """
    model = resolve_model(model)
    vars = value_variables(model, vars)
    require_continuous(model, vars)
    _check_for_random_densities(model)
    shapes, point = {v.name: v.type.shape for v in model.value_vars}, initial_point
    if point is not None or any(None in shape for shape in shapes.values()):
        # Computing the model's initial point compiles code, so it is the last resort.
        shapes = {k: np.shape(x) for k, x in (point or model.initial_point()).items()}
    names = {v: model.values_to_rvs[v].name for v in model.value_vars}
    arrays = ModelArrays()
    chosen = subsampled_variables(model, observed, min_rows, observation_dims)
    reading = names, observation_dims, arrays
    terms = [read_term(model, rv, *reading) for rv in chosen if rv not in model.potentials]
    weigh_terms(terms, weights)
    by_rows = read_potentials(model, chosen, reading, min_rows if observed is None else 1)
    terms = join_terms([*terms, *terms_of_potentials(by_rows, observed, len(terms))])
    prior, rest = _prior_part(model, chosen, by_rows)
    require_alone(rest, terms)
    in_rows = set(ancestors([term.logp for term in terms]))
    foreign = [v for v in model.value_vars if v not in vars]
    expanded = [v for v in foreign if v in in_rows and np.dtype(v.dtype).kind == "f"]
    kept = [v for v in foreign if v not in expanded]
    blocks, others = (lay_out(model, some, shapes) for some in ([*expanded, *vars], kept))
    position = pt.vector("position", shape=(blocks[-1].stop,), dtype="float64")
    other_values = pt.vector("others", shape=(total_size(others),), dtype="float64")
    pieces = split_vector(position, blocks) | split_vector(other_values, others)
    free = natural_values(model, [block.variable for block in blocks])
    for name, graphs in rest.items():
        arrays.add(graphs, name)
    arrays.add([prior, *free.values()], "the prior part")
    prior, *graphs = _without_shared([prior, *(t.logp for t in terms), *free.values()], pieces)
    for term, logp in zip(terms, graphs[: len(terms)], strict=True):
        term.logp = logp
        require_indices_in_range(term, [position, other_values])
    free = dict(zip(free, graphs[len(terms) :], strict=True))
    lower, upper = np.concatenate([support_of_block(model, block) for block in blocks], axis=1)
    layout = position, blocks, total_size(blocks[: len(expanded)]), other_values, others
    prior, in_full = prior.astype("float64"), evaluated_in_full(model, by_rows)
    return Factorization(*layout, prior, tuple(terms), lower, upper, free, arrays, in_full)


def _prior_part(
    model: pm.Model, chosen: Sequence[Variable], by_rows: Mapping[Variable, RowsOfPotential]
) -> tuple[Variable, dict[str, Sequence[Variable]]]:
    """Log-density of all that is not subsampled, and the graphs behind it by variable."""
    unread = [v for v in model.basic_RVs + model.potentials if v not in chosen]
    rest: dict[str, Sequence[Variable]] = {
        str(v.name): [v, model.rvs_to_values.get(v, v)] for v in unread
    }
    rest |= {str(v.name): reading.rest for v, reading in by_rows.items()}
    densities = [
        *(log_densities(model, unread) if unread else ()),
        *(part for reading in by_rows.values() for part in reading.rest),
    ]
    if not densities:
        return pt.constant(0.0), rest
    return with_double_constants(sum_log_densities(densities)), rest


def sum_log_densities(graphs: Sequence[Variable]) -> Variable:
    """Sum of log-densities in PyMC's order of summation."""
    return variadic_add(*(as_plain_tensor(one).sum() for one in graphs))


def _without_shared(outputs: list[Variable], pieces: dict[Variable, Variable]) -> list[Variable]:
    frozen = {
        v: as_symbolic(data_values(v))
        for v in ancestors(outputs)
        if (isinstance(v, SharedVariable) and isinstance(v.type, pt.TensorType))
        or (isinstance(v, SharedVariable | Constant) and isinstance(v.type, XTensorType))
    }
    read = with_dims_removed(outputs, {**pieces, **frozen})
    return list(clone_replace(outputs, read, rebuild_strict=False))


def require_continuous(model: pm.Model, vars: Sequence[Variable]) -> None:
    """Raise UnsupportedModelError if there are no variables to sample, or a discrete one."""
    if not vars:
        raise UnsupportedModelError(
            "vars= is empty, or this model has no continuous free variable, but this step "
            "proposes continuous variables only. Use pm.sample() without it."
        )
    for variable in vars:
        if np.dtype(variable.dtype).kind != "f":
            name = model.values_to_rvs[variable].name
            raise UnsupportedModelError(
                f"{name!r} is discrete, but this step proposes continuous variables only. Leave "
                "it out of vars=: pm.sample() gives it another step."
            )


def _check_for_random_densities(model: pm.Model) -> None:
    # Terms in the prior part are checked, too: a random minibatch is also wrong there.
    for rv in model.observed_RVs + model.potentials:
        if isinstance(rv.owner_op, SimulatorRV):
            raise refusal_message(
                str(rv.name),
                "is a Simulator: its density is a distance to simulated data as a whole",
                "Sample it with pm.sample_smc().",
            )
        rescaled = isinstance(rv.owner_op, MinibatchRandomVariable)
        above = ancestors([rv, model.rvs_to_values.get(rv, rv)])
        if rescaled or any(v.owner and isinstance(v.owner.op, MinibatchOp) for v in above):
            raise refusal_message(
                str(rv.name),
                "is declared with total_size= or pm.Minibatch, which rescales a random batch",
                "Give the model all rows and drop total_size; this step draws its own batches.",
            )
