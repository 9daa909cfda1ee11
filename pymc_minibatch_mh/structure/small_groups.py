"""Grouping factor whose effects can be integrated out, one for each row.

Given all other parameters its effects are independent, so the likelihood of a group, with its
effects α = μ + L z integrated over, is a factor of the posterior: the group is the observation. The
law of z is fixed, μ is affine in other coordinates, and an entry of the lower triangular L is
constant, proportional to a coordinate φ, or to a positive monotone function h(φ) such as exp(φ).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot
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
#: Number of rows in the group of a row, on average, from which large groups are parameters.
MANY_BESIDE = 70
#: Number of rows beyond which a few groups keep their effects as parameters, and how many are few.
LARGE_ROWS, MOST_LARGE = 70, 20
#: Maximum number of effects of a group; an entry of L that is 0.
MAX_EFFECTS, ZERO = 2, PositionFactor(("number", 0.0), False)


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

    The positive function h, exp by default, has the `steps` of a :class:`Monotone`. Without a
    coordinate, which is then -1, the entry is the constant `spread`.
    """

    row: int
    column: int
    coordinate: int
    spread: float
    is_log: bool = True
    steps: tuple[tuple[str, float], ...] = (("exp", 0.0),)

    @property
    def is_constant(self) -> bool:
        """Whether the entry depends on no coordinate."""
        return self.coordinate < 0


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

    `levels` are the rows' levels of the factor by term, none of stored rows, which are sorted by
    level; `counts`, int64, are the levels' numbers of rows, shape (terms, levels). Levels `small`
    are the groups whose effects are integrated out; effects of the others are parameters. Factors
    of effects in observations are coordinates `in_logs`, or by themselves.
    """

    effects: tuple[GroupEffect, ...]
    law: EffectLaw
    scales: tuple[EffectScale, ...]
    levels: tuple[np.ndarray, ...]
    counts: np.ndarray
    small: np.ndarray
    in_logs: bool = False

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.small.size

    @property
    def large(self) -> np.ndarray:
        """Levels whose effects are not integrated out."""
        return np.delete(np.arange(self.counts.shape[1]), self.small)

    @property
    def room(self) -> int:
        """Maximum number of further groups whose effects may be parameters."""
        in_memory = sum(level.size for level in self.levels) == self.counts.sum()
        return MOST_LARGE - self.large.size if in_memory else 0

    def without_groups(self, numbers: np.ndarray) -> "SmallGroups":
        """The same with the effects of some groups as parameters."""
        return replace(self, small=np.delete(self.small, numbers))

    @property
    def n_observations(self) -> int:
        """Number of groups, and of rows of large groups."""
        return self.small.size + int(self.counts[:, self.large].sum())

    @property
    def name(self) -> str:
        """Names of the effects."""
        return " and ".join(dict.fromkeys(effect.factor.name for effect in self.effects))

    @property
    def coordinates(self) -> np.ndarray:
        """Coordinates of the effects of the groups, shape (groups, effects)."""
        return self.all_coordinates[self.small]

    @property
    def all_coordinates(self) -> np.ndarray:
        """Coordinates of the effects of all levels, shape (levels, effects)."""
        return np.stack([effect.factor.places for effect in self.effects], axis=1)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Value variables that consist of the effects."""
        return tuple({effect.block.name: effect.block for effect in self.effects}.values())

    def without(self, size: int) -> np.ndarray:
        """Numbers of `size` coordinates after those of the effects are left out."""
        return np.searchsorted(np.setdiff1d(np.arange(size), self.coordinates), np.arange(size))


class _Prior(NamedTuple):
    """Law of an effect with expressions of its location, and of its line of the factor L."""

    law: EffectLaw
    location: Expr
    line: tuple[Expr, ...]


def find_small_groups(
    model: pm.Model,
    factorization: Factorization,
    functions: Sequence[RowFunction],
    effects: RandomEffects,
) -> SmallGroups:
    """Largest grouping factor as groups, with the factors that have the same levels.

    NotSeparableError with the reason if it is impossible.
    """
    if not effects.factors:
        raise NotSeparableError("no factor has one effect for each row")
    alike = [x for x in effects.factors if x.places.size == effects.factors[0].places.size]
    _block_of(factorization, alike[0], alike)
    if len(functions) > 1 and any(function.is_stored for function in functions):
        raise NotSeparableError(f"{alike[0].name!r} has several observed variables in files")
    factors, readings = _with_the_same_levels(functions, alike)
    levels, counts = zip(*readings, strict=True)
    maps = [x for x in factorization.maps if any(f.places[0] in x.moved_indices for f in factors)]
    factors.sort(key=lambda factor: (*_column_in(maps, factor), factor.places[0]))
    blocks = [_block_of(factorization, factor, factors) for factor in factors]
    priors = [
        _prior_of(model, factorization, block, factor)
        for block, factor in zip(blocks, factors, strict=True)
    ]
    if len(factors) > 1 and any(prior.law.name != "normal" for prior in priors):
        raise NotSeparableError(f"{factors[1].name!r} and others have a prior that is not Normal")
    parts = [_effect_of(maps, *x) for x in zip(priors, factors, blocks, strict=True)]
    integrated = tuple(effect for effect, _ in parts)
    scales = tuple(x for k, (_, line) in enumerate(parts) for x in _scales_of(integrated, k, line))
    sizes = np.array(counts)
    groups = SmallGroups(integrated, priors[0].law, scales, levels, sizes, _small(levels, sizes))
    if groups.coordinates.size == factorization.size:
        raise NotSeparableError(f"there are no parameters beside {groups.name!r}")
    _require_apart(factorization, functions, groups)
    return groups


def _small(levels: Sequence[np.ndarray], counts: np.ndarray) -> np.ndarray:
    """Levels to integrate out: all, or all but a few with many rows in memory."""
    rows = counts.sum(axis=0)
    is_large = rows > LARGE_ROWS
    in_memory = sum(level.size for level in levels) == rows.sum()
    few = in_memory and is_large.sum() <= min(MOST_LARGE, 0.1 * rows.size)
    # Traces without effects, and leaving a group out, are simpler where all are integrated out.
    few = few and rows @ rows > MANY_BESIDE * rows.sum()
    return np.flatnonzero(~is_large if few else np.ones(rows.size, dtype=bool))


def _with_the_same_levels(
    functions: Sequence[RowFunction], factors: Sequence[GroupingFactor]
) -> tuple[list[GroupingFactor], list[tuple[np.ndarray, np.ndarray]]]:
    """First factor and others with the same level in all rows; groups and their sizes by term."""
    first, *others = factors
    alike, levels = [first], [_levels_of(f, first, k) for k, f in enumerate(functions)]
    for other in others:
        try:
            others_levels = [_levels_of(f, other, k) for k, f in enumerate(functions)]
        except NotSeparableError:
            continue
        pairs = list(zip(levels, others_levels, strict=True))
        # Stored rows are sorted by group: their numbers tell their groups.
        if all(not x or not y or all(map(np.array_equal, x, y)) for x, y in pairs):
            alike, levels = [*alike, other], [x or y for x, y in pairs]
    for function, level in zip(functions, levels, strict=True):
        if level is None:
            raise NotSeparableError(f"{function.name!r} does not have one effect of {first.name!r}")
    if len(alike) > MAX_EFFECTS:
        names = ", ".join(repr(factor.name) for factor in alike)
        raise NotSeparableError(f"there are {len(alike)} effects of each group: {names}")
    return alike, [level for level in levels if level]


def _column_in(maps: Sequence[Bijection], factor: GroupingFactor) -> tuple[int, ...]:
    """Number of a factor's column in the coordinates of its map; 0 without a map."""
    for x in maps:
        columns = np.flatnonzero((x.indices == factor.places[0]).any(axis=0))
        if columns.size:
            return (int(columns[0]),)
    return (0,)


def _block_of(
    factorization: Factorization, factor: GroupingFactor, factors: Sequence[GroupingFactor]
) -> Block:
    """Value variable that consists of the effects of a factor, and of others of `factors`."""
    effects = np.concatenate([x.places for x in factors])
    for block in factorization.blocks:
        inside = effects[(effects >= block.start) & (effects < block.stop)]
        is_full = block.start <= factor.places[0] < block.stop == block.start + inside.size
        if is_full and inside.size <= MAX_EFFECTS * factor.places.size:
            return block
    raise NotSeparableError(
        f"{factor.name!r} is not a vector with one effect for each group, or a matrix with two"
    )


def _levels_of(
    function: RowFunction, factor: GroupingFactor, term: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Group of each row of a term, unless rows are stored, and number of rows of each group.

    None if the term does not have the factor.
    """
    indices = {term.place for _, term in factor.readings[term]}
    if not indices:
        return None
    if len(indices) > 1:
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


def _prior_of(
    model: pm.Model, factorization: Factorization, block: Block, factor: GroupingFactor
) -> _Prior:
    """Law, location and line of L of the model's own variable."""
    rv = next(rv for rv, value in model.rvs_to_values.items() if value.name == block.name)
    _require_own_prior(model, rv, {term.name for term in factorization.terms})
    op, name = rv.owner.op, getattr(rv.owner.op, "name", "")
    if name not in (*LAWS, "multivariate_normal") or model.rvs_to_transforms[rv] is not None:
        raise NotSeparableError(
            f"{rv.name!r} has the prior {name or type(op).__name__}; effects are integrated out "
            "if it is Normal, StudentT with constant nu, Logistic, or MvNormal with chol="
        )
    parameters, number = op.dist_params(rv.owner), factor.places - block.start

    def entry_of(graph: Variable) -> Expr:
        entries = np.broadcast_to(_expressions_of(model, factorization, graph), block.shape)
        first, *others = entries.ravel()[number]
        if any(entry is not first for entry in others):
            raise NotSeparableError(f"{graph.name or 'a parameter'!r} differs between groups")
        return first

    if name == "multivariate_normal":
        factor_of_cov = _expressions_of(model, factorization, _cholesky_factor(parameters[1], rv))
        k = int(number[0]) % block.shape[-1]
        line = tuple(factor_of_cov.reshape(factor_of_cov.shape[-2:])[k, : k + 1])
        return _Prior(EffectLaw("normal"), entry_of(parameters[0]), line)
    location, scale = map(entry_of, parameters[LAWS[name] :])
    shape = entry_of(parameters[0]) if LAWS[name] else None
    if shape is not None and not isinstance(shape, Constant):
        raise NotSeparableError(f"{rv.name!r} has a prior with a free shape")
    return _Prior(EffectLaw(name, float(shape.value) if shape else 0.0), location, (scale,))


def _cholesky_factor(covariance: Variable, rv: Variable) -> Variable:
    """Graph of the lower triangular factor of a covariance that is its product."""
    squeezed = covariance
    while isinstance(squeezed.owner_op, DimShuffle):
        squeezed = squeezed.owner.inputs[0]
    op = squeezed.owner_op
    if isinstance(getattr(op, "core_op", op), Dot):
        left, right = squeezed.owner.inputs
        is_transpose = isinstance(right.owner_op, DimShuffle) and right.owner_op.new_order == (1, 0)
        if is_transpose and right.owner.inputs[0] is left:
            return left
    raise NotSeparableError(f"{rv.name!r} has a covariance without a factor: pass chol= instead")


def _require_own_prior(model: pm.Model, rv: Variable, names: set[str]) -> None:
    """Raise NotSeparableError if others than the observations called `names` depend on effects."""
    others = [x for x in (*model.basic_RVs, *model.potentials) if x is not rv]
    others = [x for x in others if x.name not in names]
    for other, density in zip(others, log_densities(model, others), strict=True):
        if model.rvs_to_values[rv] in ancestors([density]):
            raise NotSeparableError(f"{rv.name!r} is in the density of {other.name!r} as well")


def _expressions_of(model: pm.Model, factorization: Factorization, graph: Variable) -> np.ndarray:
    """Numbers of the model as expressions of the value variables."""
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
        return lower_graph(exprs, graph, plain.position)
    except LoweringError as error:
        raise NotSeparableError(f"{name!r} is not a simple function of parameters") from error


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
    match scale and scale.expression:
        case ("number", value) if value > 0.0:
            return EffectScale(0, 0, -1, value, is_log=False)
    function, number = monotone_from(scale.expression) if scale else None, 1.0
    if function is None or not function.ends[0] >= 0.0:
        raise NotSeparableError(
            f"{factor.name!r} has a standard deviation that is neither a positive number nor a "
            "positive, monotone function of one parameter"
        )
    steps, (last, spread) = function.steps, function.steps[-1]
    if last == "multiply" and spread > 0.0:
        steps, number = steps[:-1], spread
    return EffectScale(0, 0, function.coordinate, number, steps=steps)


def _scales_of(
    effects: Sequence[GroupEffect], k: int, line: Sequence[PositionFactor | None]
) -> Iterator[EffectScale]:
    """Entries of L in line k that are not 0."""
    factor = effects[k].factor
    for column, entry in enumerate(line, k + 1 - len(line)):
        width = effects[column].width or 1.0
        if column == k:
            scale = _effect_scale(entry, factor)
            yield scale._replace(row=k, column=k, spread=scale.spread * width)
            continue
        match entry and entry.expression:
            case ("number", value):
                if value:
                    yield EffectScale(k, column, -1, value * width, is_log=False)
            case ("linear", ((number, coordinate),), ("number", 0.0)):
                yield EffectScale(k, column, coordinate, number * width, is_log=False)
            case _:
                raise NotSeparableError(
                    f"{factor.name!r} has correlations that are no parameters by themselves, as "
                    "those of LKJCholeskyCov are"
                )


def _effect_of(
    maps: Sequence[Bijection], prior: _Prior, factor: GroupingFactor, block: Block
) -> tuple[GroupEffect, list[PositionFactor | None]]:
    """An effect, and its line of L; None for what is no factor."""
    moved = [x for x in maps if factor.places[0] in x.moved_indices]
    if not moved:
        line = [as_factor(x) for x in prior.line]
        return GroupEffect(factor, block, *_affine_parts(prior.location, factor)), line
    bijection: Any = moved[0]
    numbers = [x.value for x in (prior.location, *prior.line) if isinstance(x, Constant)]
    if len(numbers) != 2 or len(moved) > 1 or not getattr(bijection, "scale", None):
        raise NotSeparableError(f"{factor.name!r} is multiplied by several parameters")
    shift, width = map(float, numbers)
    if shift:
        raise NotSeparableError(f"{factor.name!r} has a standardised prior with a mean")
    (k,) = _column_in(maps, factor)
    factors = [list(entry.elements()) or [ZERO] for entry in bijection.scale[k]]
    location = ((int(bijection.locations[k]), 1.0),) if bijection.locations[k] >= 0 else ()
    line = [entry[0] if len(entry) == 1 else None for entry in factors]
    return GroupEffect(factor, block, location, 0.0, width), line


def _require_apart(
    factorization: Factorization, functions: Sequence[RowFunction], groups: SmallGroups
) -> None:
    """Raise NotSeparableError if the scale occurs elsewhere, or another map moves the location."""
    names, moved = factorization.coordinate_names, set(groups.coordinates.flat)
    free = [scale for scale in groups.scales if not scale.is_constant]
    scales = [scale.coordinate for scale in free]
    means = {k for effect in groups.effects for k, _ in effect.location}
    read = read_coordinates(predictor_forms(functions))
    for scale in scales:
        if scale in means:
            raise NotSeparableError(f"{names[scale]!r} is in the mean of the effects as well")
        if scale in read:
            raise NotSeparableError(f"{names[scale]!r} is in the likelihood by itself as well")
    if len({x[2:3] + x[4:] for x in free}) > len(set(scales)):
        raise NotSeparableError(f"two entries of the factor of {groups.name!r} share a parameter")
    others = [x for x in factorization.maps if moved.isdisjoint(x.moved_indices)]
    taken = means.union(scales)
    for other in others:
        if taken & other.coordinates:
            raise NotSeparableError(f"{other.name!r} depends on the scale or the mean as well")
