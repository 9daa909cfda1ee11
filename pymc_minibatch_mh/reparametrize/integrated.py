"""Factorizations of the posterior of all parameters but the effects of small groups."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import Subtensor, get_idx_list

from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.reparametrize.base import reparametrize_by
from pymc_minibatch_mh.reparametrize.inverse_shape import InverseShape
from pymc_minibatch_mh.structure.random_effects import NotSeparableError, prior_without
from pymc_minibatch_mh.structure.small_groups import SmallGroups


class ScaleRoot(InverseShape):
    """Coordinates τ^root instead of log τ, for the scale of effects that are integrated out."""


def without_effects(factorization: Factorization, groups: SmallGroups, root: int) -> Factorization:
    """Posterior of all parameters but the effects of groups; their scale τ is τ^root.

    Its terms are the model's own. NotSeparableError if the prior does not split.
    """
    plain = factorization.unmapped or factorization
    start, stop = groups.block.start, groups.block.stop
    size = plain.size - (stop - start)
    position = plain.position.type.clone(shape=(size,))("position")
    left = np.delete(np.arange(plain.size), np.arange(start, stop))
    prior = prior_without(plain, groups.factor)
    natural = {
        name: graph
        for block, (name, graph) in zip(plain.blocks, plain.natural.items(), strict=True)
        if block.name != groups.block.name
    }
    graphs = [prior, *natural.values()]
    prior, *rest = clone_replace(graphs, _moved_slices(graphs, plain, position, start, stop))
    blocks = tuple(
        replace(
            b, start=int(np.searchsorted(left, b.start)), stop=int(np.searchsorted(left, b.stop))
        )
        for b in plain.blocks
        if b.name != groups.block.name
    )
    reduced = replace(
        plain, position=position, blocks=blocks, prior=prior.astype("float64"), unmapped=None,
        natural=dict(zip(natural, rest, strict=True)), maps=(), integrated=(groups.block,),
        lower=plain.lower[left], upper=plain.upper[left],
    )  # fmt: skip
    scale_at = int(np.searchsorted(left, groups.scale))
    name = reduced.name_at(scale_at)
    # A variable without a transform is the logarithm of the scale.
    label = f"exp({name})" if any(b.name == name for b in blocks) else name
    label = label if root == 1 else f"{label}²"
    scale = ScaleRoot(name, np.array([scale_at]), label, -1.0 / root)
    new = np.searchsorted(left, np.arange(plain.size))
    others = [x.renumbered(new) for x in factorization.maps if start not in x.moved_indices]
    return reparametrize_by(reduced, [*others, scale])


def _moved_slices(
    graphs: Sequence[Variable], plain: Factorization, position: Variable, start: int, stop: int
) -> dict[Variable, Variable]:
    """Slices of the position in graphs, and their equivalents in a position without effects."""
    moved = {}
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
        shift = stop - start if first >= stop else 0
        if start < last and first < stop:
            raise NotSeparableError("the prior of other parameters depends on the effects")
        piece = position[first - shift : last - shift]
        moved[variable] = piece if variable.type.ndim else piece[0]
    return moved


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
