"""Factorizations of the posterior of all parameters but the effects of small groups."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import Subtensor, get_idx_list

from pymc_minibatch_mh.model.bijection import Bijection, IndexedValues
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.reparametrize.base import reparametrize_by
from pymc_minibatch_mh.structure.loadings import Loadings
from pymc_minibatch_mh.structure.monotone import Monotone
from pymc_minibatch_mh.structure.random_effects import NotSeparableError, prior_without
from pymc_minibatch_mh.structure.small_groups import EffectScale, SmallGroups


@dataclass(frozen=True, eq=False)
class ScaleRoot(Bijection):
    """Coordinate h^root for the scale of effects that are integrated out, a function h of v.

    `power` is the function h^root.
    """

    power: Monotone

    @property
    def support(self) -> tuple[float, float]:
        """Ends of the scale's values."""
        return self.power.ends

    def inverse(self, position: Any) -> list[IndexedValues]:
        """Value variable v."""
        return [(self.indices, self._undo(position)[0])]

    def forward(self, values: np.ndarray) -> list[IndexedValues]:
        """Coordinate h(v)^root."""
        with np.errstate(over="ignore"):
            return [(self.indices, self.power.value(values[self.indices]))]

    def log_jacobian(self, position: Any) -> Any:
        """Log-Jacobian, the logarithm of |∂v / ∂h^root|."""
        return self._undo(position)[1].sum(axis=0)

    def _undo(self, position: Any) -> tuple[Any, Any]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.power.undo(position[self.indices])


@dataclass(frozen=True, eq=False)
class Shifts(Bijection):
    """Coordinates d = a b instead of b, a the coordinates at `multipliers`, or exp of these."""

    multipliers: np.ndarray
    in_logs: bool = False

    def renumbered(self, new: np.ndarray) -> "Shifts":
        """The same bijection where coordinate k of the position has the number new[k]."""
        return replace(self, indices=new[self.indices], multipliers=new[self.multipliers])

    @property
    def coordinates(self) -> set[int]:
        """Coordinates that the bijection changes or depends on."""
        return {*self.moved_indices, *self.multipliers.tolist()}

    def inverse(self, position: Any) -> list[IndexedValues]:
        """Values b."""
        return [(self.indices, position[self.indices] / self._factors(position))]

    def forward(self, values: np.ndarray) -> list[IndexedValues]:
        """Coordinates d."""
        return [(self.indices, values[self.indices] * self._factors(values))]

    def log_jacobian(self, position: Any) -> Any:
        """Log-Jacobian -Σ log a."""
        loads = position[self.multipliers]
        log = pt.log if isinstance(position, Variable) else np.log
        return -(loads if self.in_logs else log(loads)).sum(axis=0)

    def _factors(self, position: Any) -> Any:
        loads = position[self.multipliers]
        exp = pt.exp if isinstance(position, Variable) else np.exp
        return exp(loads) if self.in_logs else loads


def with_loadings(reduced: Factorization, loadings: Loadings, new: np.ndarray) -> Factorization:
    """Posterior in the coordinates of loadings, whose places have the numbers `new`."""
    exp, maps = (("exp", 0.0),), []
    logs, (shifts, multipliers) = new[loadings.logs], new[loadings.shifts].T
    if not loadings.in_logs:
        name = reduced.name_at(int(logs[0]))
        positive = ScaleRoot(name, logs, f"exp({name})", Monotone(0, exp))
        reduced = reparametrize_by(reduced, [positive])
    if shifts.size:
        name = reduced.name_at(int(shifts[0]))
        maps = [Shifts(name, shifts, f"f × {name}", multipliers, loadings.in_logs)]
    return reparametrize_by(reduced, maps) if maps else reduced


def without_effects(
    factorization: Factorization, groups: SmallGroups, roots: Sequence[int]
) -> Factorization:
    """Posterior of all parameters but the effects of groups; each of their scales τ is τ^root.

    Its terms are the model's own. Effects of large groups are not integrated out. NotSeparableError
    if the prior does not split.
    """
    plain = factorization.unmapped or factorization
    new, moved = groups.without(plain.size), groups.coordinates
    left = np.setdiff1d(np.arange(plain.size), moved)
    position = plain.position.type.clone(shape=(left.size,))("position")
    prior = prior_without(plain, groups.coordinates)
    lefts = [np.setdiff1d(np.arange(b.start, b.stop), moved) for b in plain.blocks]
    blocks = tuple(
        _left_block(b, x, new) for b, x in zip(plain.blocks, lefts, strict=True) if x.size
    )
    natural = dict(item for x, item in zip(lefts, plain.natural.items(), strict=True) if x.size)
    graphs = [prior, *natural.values()]
    prior, *rest = clone_replace(graphs, _moved_slices(graphs, plain, position, moved))
    reduced = replace(
        plain, position=position, blocks=blocks, prior=prior.astype("float64"), unmapped=None,
        natural=dict(zip(natural, rest, strict=True)), maps=(), integrated=groups.blocks,
        lower=plain.lower[left], upper=plain.upper[left],
    )  # fmt: skip
    pairs = zip(groups.scales, roots, strict=True)
    logs = {x.coordinate: (x, root) for x, root in pairs if x.is_log}
    scales = [_scale_root(reduced, x, int(new[k]), root) for k, (x, root) in logs.items()]
    others = [_left_map(x, moved) for x in factorization.maps]
    # Maps of large groups' effects depend on the scales themselves: those are mapped after them.
    reduced = reparametrize_by(reduced, [x.renumbered(new) for x in others if x.indices.size])
    return reparametrize_by(reduced, scales)


def _left_block(block: Block, left: np.ndarray, new: np.ndarray) -> Block:
    """Block with the coordinates that are left, in the position without effects."""
    entries = None if left.size == block.stop - block.start else left - block.start
    start = int(new[left[0]])
    return replace(block, start=start, stop=start + left.size, entries=entries)


def _left_map(bijection: Bijection, moved: np.ndarray) -> Bijection:
    """Bijection of the coordinates that are left."""
    if bijection.moved_indices.isdisjoint(moved.flat):
        return bijection
    left = ~np.isin(bijection.indices, moved).any(axis=1)
    return replace(bijection, indices=bijection.indices[left])


def _scale_root(reduced: Factorization, scale: EffectScale, index: int, root: int) -> ScaleRoot:
    """Coordinate h^root instead of coordinate number `index`, which h is a function of."""
    name = reduced.name_at(index)
    # A variable without a transform is the logarithm of the scale.
    label = f"exp({name})" if any(b.name == name for b in reduced.blocks) else name
    label = label if scale.steps == (("exp", 0.0),) else f"scale by {name}"
    label = label if root == 1 else f"{label}²"
    power = Monotone(index, scale.steps).to_power(float(root))
    return ScaleRoot(name, np.array([index]), label, power)


def _moved_slices(
    graphs: Sequence[Variable], plain: Factorization, position: Variable, moved: np.ndarray
) -> dict[Variable, Variable]:
    """Slices of the position in graphs, and their equivalents in a position without effects."""
    slices = {}
    for variable in ancestors(graphs):
        node = variable.owner
        if (
            node is None
            or not isinstance(node.op, Subtensor)
            or node.inputs[0] is not plain.position
        ):
            continue
        (index,) = get_idx_list(node.inputs, node.op.idx_list)
        first, last = _ends_of(index, plain.size)
        inside = moved[(first <= moved) & (moved < last)]
        shift = int((moved < first).sum())
        piece = position[first - shift : last - shift - inside.size]
        if inside.size:
            if inside.size == last - first:
                raise NotSeparableError("the prior of other parameters depends on the effects")
            left = np.setdiff1d(np.arange(last - first), inside - first)
            piece = pt.zeros(last - first)[left].set(piece)
        slices[variable] = piece if variable.type.ndim else piece[0]
    return slices


def _ends_of(index: Any, size: int) -> tuple[int, int]:
    """First coordinate and end of a constant index or slice."""

    def number(part: Any) -> Any:
        return int(part.data) if isinstance(part, Constant) else part

    if isinstance(index, slice):
        parts = slice(number(index.start), number(index.stop), number(index.step))
        first, last, _ = parts.indices(size)
        return first, last
    first = number(index) % size
    return first, first + 1
