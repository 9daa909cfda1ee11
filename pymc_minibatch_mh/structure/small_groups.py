"""Grouping factor whose effects can be integrated out, one for each row.

Given all other parameters its effects are independent, so the likelihood of a group, with its
effects α = μ + L z integrated over, is a factor of the posterior: the group is the observation. The
law of z is fixed, μ is affine in other coordinates, and an entry of the lower triangular L is
proportional to a coordinate φ, or to a positive monotone function h(φ) such as exp(φ).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from scipy.special import gammaln

from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Constant,
    Expr,
    ExprGraph,
    Gather,
    LoweringError,
)
from pymc_minibatch_mh.expressions.lower import lower_graph
from pymc_minibatch_mh.model.bijection import Bijection
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.layout import Block, split_vector
from pymc_minibatch_mh.model.stored_ops import row_blocks
from pymc_minibatch_mh.model.terms import log_densities
from pymc_minibatch_mh.structure.monotone import monotone_from
from pymc_minibatch_mh.structure.predictors import read_coordinates
from pymc_minibatch_mh.structure.products import PositionFactor, as_factor
from pymc_minibatch_mh.structure.random_effects import (
    GroupingFactor,
    NotSeparableError,
    RandomEffects,
)
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction, predictor_forms

#: Laws of effects by PyTensor's name: number of shape parameters before location and scale.
LAWS = {"normal": 0, "logistic": 0, "t": 1}


class EffectLaw(NamedTuple):
    """Law of standardised effects z: name, and shape parameter, such as degrees of freedom."""

    name: str
    shape: float = 0.0

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Logarithm of the density at z."""
        if self.name == "normal":
            return -0.5 * (z**2 + np.log(2.0 * np.pi))
        if self.name == "logistic":
            return -np.abs(z) - 2.0 * np.log1p(np.exp(-np.abs(z)))
        half = 0.5 * (self.shape + 1.0)
        total = gammaln(half) - gammaln(0.5 * self.shape) - 0.5 * np.log(self.shape * np.pi)
        return total - half * np.log1p(z**2 / self.shape)


class EffectScale(NamedTuple):
    """Entry of L: spread × coordinate, or spread × h(coordinate) if the coordinate is like a log.

    The positive function h, exp by default, has the `steps` of a :class:`Monotone`.
    """

    row: int
    column: int
    coordinate: int
    spread: float
    is_log: bool = True
    steps: tuple[tuple[str, float], ...] = (("exp", 0.0),)


@dataclass(frozen=True, eq=False)
class GroupEffect:
    """An effect α of each group, with μ = offset + Σ weight × coordinate, by pairs in `location`.

    The model's own variable is `width` z, or α itself if `width` is 0.
    """

    factor: GroupingFactor
    block: Block
    location: tuple[tuple[int, float], ...]
    offset: float
    width: float = 0.0


@dataclass(frozen=True, eq=False)
class SmallGroups:
    """Effects α = μ + L z to integrate out, L by its entries `scales`.

    `levels` are groups of rows by term, none of stored rows, which are sorted by group; `counts`,
    int64, are the groups' numbers of rows, shape (terms, groups).
    """

    effects: tuple[GroupEffect, ...]
    law: EffectLaw
    scales: tuple[EffectScale, ...]
    levels: tuple[np.ndarray, ...]
    counts: np.ndarray

    @property
    def n_groups(self) -> int:
        """Number of levels."""
        return self.effects[0].factor.places.size

    @property
    def name(self) -> str:
        """Names of the effects."""
        return " and ".join(dict.fromkeys(effect.factor.name for effect in self.effects))

    @property
    def coordinates(self) -> np.ndarray:
        """Coordinates of the effects, shape (groups, effects)."""
        return np.stack([effect.factor.places for effect in self.effects], axis=1)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Value variables that consist of the effects."""
        return tuple({effect.block.name: effect.block for effect in self.effects}.values())

    def without(self, size: int) -> np.ndarray:
        """Numbers of `size` coordinates after those of the effects are left out."""
        return np.searchsorted(np.setdiff1d(np.arange(size), self.coordinates), np.arange(size))


class _Prior(NamedTuple):
    """Law of the effects with expressions of location and scale."""

    law: EffectLaw
    location: Expr
    scale: Expr


def find_small_groups(
    model: pm.Model,
    factorization: Factorization,
    functions: Sequence[RowFunction],
    effects: RandomEffects,
) -> SmallGroups:
    """Largest grouping factor as groups; NotSeparableError with the reason if it is impossible."""
    factor = effects.factors[0] if effects.factors else None
    if factor is None:
        raise NotSeparableError("no factor has one effect for each row")
    block = _whole_block(factorization, factor)
    if len(functions) > 1 and any(function.is_stored for function in functions):
        raise NotSeparableError(f"{factor.name!r} has several observed variables in files")
    readings = [_levels_of(f, factor, k) for k, f in enumerate(functions)]
    levels, counts = zip(*readings, strict=True)
    prior = _prior_of(model, factorization, block)
    maps = [x for x in factorization.maps if block.start in x.moved_indices]
    location, offset = _affine_parts(prior.location, factor)
    if maps:
        effect, scale = _through_map(maps, prior, factor, block)
    else:
        scale = _effect_scale(as_factor(prior.scale), factor)
        effect = GroupEffect(factor, block, location, offset)
    groups = SmallGroups((effect,), prior.law, (scale,), levels, np.array(counts))
    _require_apart(factorization, functions, groups)
    return groups


def _whole_block(factorization: Factorization, factor: GroupingFactor) -> Block:
    """Value variable that consists of the effects."""
    first, last = int(factor.places[0]), int(factor.places[-1])
    for block in factorization.blocks:
        if block.start == first and block.stop == last + 1 == first + factor.places.size:
            return block
    raise NotSeparableError(f"{factor.name!r} is not a vector with one effect for each group")


def _levels_of(
    function: RowFunction, factor: GroupingFactor, term: int
) -> tuple[np.ndarray, np.ndarray]:
    """Group of each row of a term, unless rows are stored, and number of rows of each group."""
    indices = {term.place for _, term in factor.readings[term]}
    if len(indices) != 1:
        raise NotSeparableError(f"{function.name!r} does not have one effect of {factor.name!r}")
    (gather,) = indices
    assert isinstance(gather, Gather)
    size, last, counts = factor.places.size, 0, np.zeros(factor.places.size, np.int64)
    for rows in row_blocks(function.n_rows, function.columns):
        data = RowData(function, rows)
        levels = factor.of_index(np.broadcast_to(data.index(gather), data.rows.size))
        if (levels < 0).any():
            raise NotSeparableError(
                f"{function.name!r} has rows without an effect of {factor.name!r}"
            )
        if function.is_stored:
            _require_sorted(function, factor, np.append(last, levels), rows.start)
            last = levels[-1]
        counts += np.bincount(levels, minlength=size)
    return (np.empty(0, np.int64) if function.is_stored else levels), counts


def _require_sorted(
    function: RowFunction, factor: GroupingFactor, levels: np.ndarray, first: int
) -> None:
    """Raise NotSeparableError unless stored rows from `first` on are sorted by group."""
    falls = np.flatnonzero(np.diff(levels) < 0)
    if falls.size:
        raise NotSeparableError(
            f"the stored rows of {function.name!r} are not sorted by the group of "
            f"{factor.name!r}, first in row {first + int(falls[0]):,}. Sort them once, for example "
            "by pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).sort_by(group), path)"
        )


def _prior_of(model: pm.Model, factorization: Factorization, block: Block) -> _Prior:
    """Law, location and scale of the model's own variable."""
    rv = next(rv for rv, value in model.rvs_to_values.items() if value.name == block.name)
    _require_own_prior(model, rv, {term.name for term in factorization.terms})
    op, name = rv.owner.op, getattr(rv.owner.op, "name", "")
    if name not in LAWS or model.rvs_to_transforms[rv] is not None:
        raise NotSeparableError(
            f"{rv.name!r} has the prior {name or type(op).__name__}; effects are integrated out "
            "if it is Normal, StudentT with constant nu, or Logistic"
        )
    parameters = [_as_expression(model, factorization, x) for x in op.dist_params(rv.owner)]
    shape = parameters[0].value if LAWS[name] and isinstance(parameters[0], Constant) else 0.0
    if LAWS[name] and not shape:
        raise NotSeparableError(f"{rv.name!r} has a prior with a free shape")
    return _Prior(EffectLaw(name, float(shape)), *parameters[LAWS[name] :])


def _require_own_prior(model: pm.Model, rv: Variable, names: set[str]) -> None:
    """Raise NotSeparableError if others than the observations called `names` depend on effects."""
    others = [x for x in (*model.basic_RVs, *model.potentials) if x is not rv]
    others = [x for x in others if x.name not in names]
    for other, density in zip(others, log_densities(model, others), strict=True):
        if model.rvs_to_values[rv] in ancestors([density]):
            raise NotSeparableError(f"{rv.name!r} is in the density of {other.name!r} as well")


def _as_expression(model: pm.Model, factorization: Factorization, graph: Variable) -> Expr:
    """A number of the model as an expression of the value variables."""
    exprs, name = ExprGraph(), graph.name or "a parameter of its prior"
    (graph,) = model.replace_rvs_by_values([graph])
    plain = factorization.unmapped or factorization
    (graph,) = clone_replace([graph], split_vector(plain.position, plain.blocks))
    foreign = sorted(v.name for v in set(model.value_vars).intersection(ancestors([graph])))
    if foreign:
        raise NotSeparableError(
            f"their prior depends on {foreign[0]!r}, which belongs to another step"
        )
    try:
        entries = np.ravel(lower_graph(exprs, graph, plain.position))
    except LoweringError as error:
        raise NotSeparableError(f"{name!r} is not a simple function of parameters") from error
    if any(entry is not entries[0] for entry in entries):
        raise NotSeparableError(f"{name!r} differs between groups")
    return entries[0]


def _affine_parts(
    expr: Expr, factor: GroupingFactor
) -> tuple[tuple[tuple[int, float], ...], float]:
    """Pairs of coordinate and weight, and constant, of an affine expression."""
    if isinstance(expr, Constant):
        return (), float(expr.value)
    if isinstance(expr, Affine) and isinstance(expr.offset, Constant):
        pairs = [(t.place, t.factor) for t in expr.terms if isinstance(t.place, int)]
        if len(pairs) == len(expr.terms) and not any(t.monomial for t in expr.terms):
            return tuple(pairs), float(expr.offset.value)
    raise NotSeparableError(f"{factor.name!r} has a mean that is not affine in parameters")


def _effect_scale(scale: PositionFactor | None, factor: GroupingFactor) -> EffectScale:
    """First entry of L, for a scale that is a positive monotone function of one coordinate."""
    function, number = monotone_from(scale.expression) if scale else None, 1.0
    if function is None or not function.ends[0] >= 0.0:
        raise NotSeparableError(
            f"{factor.name!r} has a standard deviation that is not a positive, monotone function "
            "of one parameter"
        )
    steps, (last, spread) = function.steps, function.steps[-1]
    if last == "multiply" and spread > 0.0:
        steps, number = steps[:-1], spread
    return EffectScale(0, 0, function.coordinate, number, steps=steps)


def _through_map(
    maps: Sequence[Bijection], prior: _Prior, factor: GroupingFactor, block: Block
) -> tuple[GroupEffect, EffectScale]:
    """Location and scale of effects that the model writes as a scale times a variable."""
    bijection: Any = maps[0]
    numbers = [x.value for x in prior[1:] if isinstance(x, Constant)]
    alone = len(maps) == 1 and getattr(bijection, "scale", None) and len(bijection.scale) == 1
    if len(numbers) < 2 or not alone or bijection.indices.shape != (factor.places.size, 1):
        raise NotSeparableError(f"{factor.name!r} is multiplied by several parameters")
    factors = list(bijection.scale[0][0].elements())
    scale = _effect_scale(factors[0] if len(factors) == 1 else None, factor)
    location = [(int(k), 1.0) for k in bijection.locations if k >= 0]
    shift, width = map(float, numbers)
    if shift:
        raise NotSeparableError(f"{factor.name!r} has a standardised prior with a mean")
    effect = GroupEffect(factor, block, tuple(location), 0.0, width)
    return effect, scale._replace(spread=scale.spread * width)


def _require_apart(
    factorization: Factorization, functions: Sequence[RowFunction], groups: SmallGroups
) -> None:
    """Raise NotSeparableError if the scale occurs elsewhere, or another map moves the location."""
    names, moved = factorization.coordinate_names, set(groups.coordinates.flat)
    scales = [scale.coordinate for scale in groups.scales]
    means = {k for effect in groups.effects for k, _ in effect.location}
    read = read_coordinates(predictor_forms(functions))
    for scale in scales:
        if scale in means:
            raise NotSeparableError(f"{names[scale]!r} is in the mean of the effects as well")
        if scale in read:
            raise NotSeparableError(f"{names[scale]!r} is in the likelihood by itself as well")
    others = [x for x in factorization.maps if moved.isdisjoint(x.moved_indices)]
    taken = means.union(scales)
    for other in others:
        if taken & other.coordinates:
            raise NotSeparableError(f"{other.name!r} depends on the scale or the mean as well")
