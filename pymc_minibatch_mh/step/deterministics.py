"""Large deterministics, which ``pm.sample`` evaluates and stores at every draw.

One value per row is the usual case: the fitted probabilities of ``pm.OrderedLogistic``, the
function of a Gaussian process, ``p`` or ``mu`` that a user or Bambi has named. No step has a say in
what is stored, so all that can be done is to name them before sampling.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.model.reading.dims import plain
from pymc_minibatch_mh.step import report

#: Bytes a draw from which a deterministic is large: ten thousand draws of four chains are 1 GiB.
LARGE = 2**30 // 40_000
#: Model -> what was told of: name -> the deterministic.
_told: WeakKeyDictionary[pm.Model, dict[str, "LargeDeterministic"]] = WeakKeyDictionary()


@dataclass(frozen=True)
class LargeDeterministic:
    """A deterministic that takes more than :data:`LARGE` bytes a draw.

    Parameters
    ----------
    name
        Its name.
    shape
        Of its value.
    bytes_per_draw
        Size of its value.
    """

    name: str
    shape: tuple[int, ...]
    bytes_per_draw: int

    @property
    def priced(self) -> str:
        """Shape and size in words, such as ``1,000,000 × 5 values, 37.3 GiB``."""
        values = " × ".join(f"{length:,}" for length in self.shape)
        return f"{values} values, {report.size_in_words(1_000 * self.bytes_per_draw)}"


def large_deterministics(
    model: pm.Model, point: Mapping[str, np.ndarray], known: Collection[str] = ()
) -> tuple[LargeDeterministic, ...]:
    """Return the deterministics of a model that are large, as far as their shapes are known.

    Parameters
    ----------
    model
        The model.
    point
        Values of the value variables, on which shapes may depend.
    known
        Names of those that are not looked at.
    """
    looked_at = [v for v in model.deterministics if v.name not in known]
    shapes = _shapes(model, looked_at, point)
    found = (
        LargeDeterministic(str(v.name), shape, np.dtype(v.dtype).itemsize * prod(shape))
        for v, shape in zip(looked_at, shapes, strict=True)
        if shape is not None
    )
    return tuple(one for one in found if one.bytes_per_draw > LARGE)


def names_without(model: pm.Model, large: Iterable[LargeDeterministic]) -> tuple[str, ...]:
    """Return what ``pm.sample(var_names=...)`` needs to leave out large deterministics."""
    left_out = {one.name for one in large}
    return tuple(str(v.name) for v in model.unobserved_RVs if v.name not in left_out)


def tell_of_large(model: pm.Model, point: Mapping[str, np.ndarray], step: str) -> None:
    """Warn of a model's large deterministics in the name of a step, once for each model."""
    told = _told.setdefault(model, {})
    new = large_deterministics(model, point, told)
    if new:
        told |= {one.name: one for one in new}
        names = names_without(model, told.values())
        priced = {one.name: one.priced for one in told.values()}
        report.tell_of_large_deterministics(step, priced, names)


def _shapes(
    model: pm.Model, variables: Sequence[Variable], point: Mapping[str, np.ndarray]
) -> Sequence[tuple[int, ...] | None]:
    static = [tuple(v.type.shape) for v in variables]
    if all(None not in shape for shape in static):
        return static
    # Nothing is compiled, and values are computed only where an operation does not tell the shape
    # of its output without them.
    graphs = [plain(v).shape for v in model.replace_rvs_by_values(variables)]
    mode = Mode(linker="py", optimizer="fast_compile")
    lenient: Any = {"on_unused_input": "ignore", "allow_input_downcast": True}
    shapes_at = pytensor.function(model.value_vars, graphs, mode=mode, **lenient)
    try:
        found = shapes_at(*(point[v.name] for v in model.value_vars))
    except Exception:
        # Such an operation is a user's own and may raise anything. A shape is not worth an error:
        # if sampling evaluates it in vain as well, PyMC says so.
        if len(variables) == 1:
            return [None]
        return [shape for v in variables for shape in _shapes(model, [v], point)]
    return [tuple(int(length) for length in shape) for shape in found]
