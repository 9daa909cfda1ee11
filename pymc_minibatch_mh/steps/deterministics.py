"""Large deterministics, which ``pm.sample`` evaluates and stores at every draw.

One value per row is the usual case: the fitted probabilities of ``pm.OrderedLogistic``, the
function of a Gaussian process, ``p`` or ``mu`` that a user or Bambi has named. No step has a say in
the choice of variables that are stored, so all that can be done is to name them before sampling.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.model.constant_data import plain

_log = logging.getLogger("pymc")

#: Bytes a draw from which a deterministic is large: ten thousand draws of four chains are 1 GiB.
LARGE = 2**30 // 40_000


def size_in_words(size: int) -> str:
    """Return a number of bytes in the unit that suits it."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


@dataclass(frozen=True)
class LargeDeterministic:
    """A deterministic that takes more than :data:`LARGE` bytes a draw."""

    name: str
    shape: tuple[int, ...]
    bytes_per_draw: int

    @property
    def priced(self) -> str:
        """Shape and size in words, such as ``1,000,000 × 5 values, 37.3 GiB``."""
        values = " × ".join(f"{length:,}" for length in self.shape)
        return f"{values} values, {size_in_words(1_000 * self.bytes_per_draw)}"


def large_deterministics(
    model: pm.Model, point: Mapping[str, np.ndarray], known: Collection[str] = ()
) -> tuple[LargeDeterministic, ...]:
    """Return the large deterministics of a model, as far as their shapes are known.

    Shapes may depend on the `point`; those with `known` names are not looked at.
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
    """Return the ``var_names`` of ``pm.sample`` that leave out large deterministics."""
    left_out = {one.name for one in large}
    return tuple(str(v.name) for v in model.unobserved_RVs if v.name not in left_out)


#: Stands for a deterministic whose size nobody has asked for.
UNPRICED = LargeDeterministic("", (), 0)
#: Model -> the deterministics that were told of, by name.
_told: WeakKeyDictionary[pm.Model, dict[str, LargeDeterministic]] = WeakKeyDictionary()


@contextmanager
def untold(model: pm.Model) -> Iterator[None]:
    """Say nothing of a model's large deterministics for a while: sample() leaves them out."""
    before = _told.get(model)
    _told[model] = {str(v.name): UNPRICED for v in model.deterministics}
    try:
        yield
    finally:
        _told[model] = before or {}


def tell_of_large(
    model: pm.Model, point: Mapping[str, np.ndarray], step: str, left_out: Collection[str] = ()
) -> None:
    """Warn of a model's large deterministics in the name of a step, once for each model.

    Nothing is said of those that are `left_out` anyway, as Bambi's ``fit`` leaves out some.
    """
    told = _told.setdefault(model, {})
    new = large_deterministics(model, point, {*told, *left_out})
    if not new:
        return
    told |= {one.name: one for one in new}
    _log.warning(
        "%s: pm.sample() evaluates and stores deterministics at every draw, those of warm-up "
        "included. For 1,000 draws of a chain: %s. This can take far longer than the updates. "
        "Leave them out with pm.sample(..., var_names=%s), and compute them for a few draws "
        "afterwards with pm.compute_deterministics(trace.posterior.isel(draw=slice(None, None, "
        "100)), var_names=%s).",
        step,
        "; ".join(f"{one.name!r}, {one.priced}" for one in told.values()),
        list(names_without(model, told.values())),
        list(told),
    )


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
