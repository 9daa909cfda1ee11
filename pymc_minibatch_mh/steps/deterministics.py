"""Large deterministics, which ``pm.sample`` evaluates and stores at every draw.

Deterministics with a value per observation are common: the fitted probabilities of
``pm.OrderedLogistic``, the function of a Gaussian process, ``p`` or ``mu`` named by a user or by
Bambi. A step cannot choose which variables are stored, so it only warns before sampling.
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

from pymc_minibatch_mh.model.constant_data import as_plain_tensor

_log = logging.getLogger("pymc")

#: Minimum size of a large deterministic in bytes per draw: 10,000 draws of four chains are 1 GiB.
MIN_LARGE_BYTES = 2**30 // 40_000


def describe_size(size: int) -> str:
    """Number of bytes in a suitable unit."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


@dataclass(frozen=True)
class LargeDeterministic:
    """A deterministic of more than :data:`MIN_LARGE_BYTES` bytes per draw."""

    name: str
    shape: tuple[int, ...]
    bytes_per_draw: int

    @property
    def priced(self) -> str:
        """Shape and total size, such as ``1,000,000 × 5 values, 37.3 GiB``."""
        values = " × ".join(f"{length:,}" for length in self.shape)
        return f"{values} values, {describe_size(1_000 * self.bytes_per_draw)}"


def large_deterministics(
    model: pm.Model, point: Mapping[str, np.ndarray], known: Collection[str] = ()
) -> tuple[LargeDeterministic, ...]:
    """Large deterministics of a model, among those with known shapes.

    Shapes may depend on the `point`; deterministics with `known` names are skipped.
    """
    looked_at = [v for v in model.deterministics if v.name not in known]
    shapes = _known_shapes(model, looked_at, point)
    known_sizes = (
        LargeDeterministic(str(v.name), shape, np.dtype(v.dtype).itemsize * prod(shape))
        for v, shape in zip(looked_at, shapes, strict=True)
        if shape is not None
    )
    return tuple(one for one in known_sizes if one.bytes_per_draw > MIN_LARGE_BYTES)


def names_without_large(model: pm.Model, large: Iterable[LargeDeterministic]) -> tuple[str, ...]:
    """Argument ``var_names`` of ``pm.sample`` without large deterministics."""
    left_out = {one.name for one in large}
    return tuple(str(v.name) for v in model.unobserved_RVs if v.name not in left_out)


#: Placeholder of a deterministic whose size is unknown.
UNKNOWN_SIZE = LargeDeterministic("", (), 0)
#: Model -> deterministics that have caused a warning, by name.
_warned: WeakKeyDictionary[pm.Model, dict[str, LargeDeterministic]] = WeakKeyDictionary()


@contextmanager
def without_warnings(model: pm.Model) -> Iterator[None]:
    """Context without warnings about a model's large deterministics: sample() leaves them out."""
    before = _warned.get(model)
    _warned[model] = {str(v.name): UNKNOWN_SIZE for v in model.deterministics}
    try:
        yield
    finally:
        _warned[model] = before or {}


def warn_of_large(
    model: pm.Model, point: Mapping[str, np.ndarray], step: str, left_out: Collection[str] = ()
) -> None:
    """Warn of a model's large deterministics in the name of a step, once for each model.

    The warning skips variables in `left_out`, for example those that Bambi's ``fit`` omits.
    """
    warned = _warned.setdefault(model, {})
    new = large_deterministics(model, point, {*warned, *left_out})
    if not new:
        return
    warned |= {one.name: one for one in new}
    _log.warning(
        "%s: pm.sample() evaluates and stores deterministics at every draw, those of warm-up "
        "included. For 1,000 draws of a chain: %s. This can take far longer than the updates. "
        "Leave them out with pm.sample(..., var_names=%s), and compute them for a few draws "
        "afterwards with pm.compute_deterministics(trace.posterior.isel(draw=slice(None, None, "
        "100)), var_names=%s).",
        step,
        "; ".join(f"{one.name!r}, {one.priced}" for one in warned.values()),
        list(names_without_large(model, warned.values())),
        list(warned),
    )


def _known_shapes(
    model: pm.Model, variables: Sequence[Variable], point: Mapping[str, np.ndarray]
) -> Sequence[tuple[int, ...] | None]:
    static = [tuple(v.type.shape) for v in variables]
    if all(None not in shape for shape in static):
        return static
    # Nothing is compiled. Values are computed only if an operation's output shape depends on them.
    graphs = [as_plain_tensor(v).shape for v in model.replace_rvs_by_values(variables)]
    mode = Mode(linker="py", optimizer="fast_compile")
    lenient: Any = {"on_unused_input": "ignore", "allow_input_downcast": True}
    shapes_at = pytensor.function(model.value_vars, graphs, mode=mode, **lenient)
    try:
        shapes = shapes_at(*(point[v.name] for v in model.value_vars))
    except Exception:
        # A custom operation may raise anything. An unknown shape is no error: if sampling evaluates
        # the operation, PyMC reports the exception.
        if len(variables) == 1:
            return [None]
        return [shape for v in variables for shape in _known_shapes(model, [v], point)]
    return [tuple(int(length) for length in shape) for shape in shapes]
