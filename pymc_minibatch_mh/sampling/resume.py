"""Chains that go on where those of a trace ended."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.sampling.trace import Draws
from pymc_minibatch_mh.sampling.workers import RunSettings
from pymc_minibatch_mh.steps.base import MinibatchStep


def remember(step: MinibatchStep, chains: Sequence[Chain], tree: xr.DataTree) -> None:
    """Keep the ends of chains in their step, without bounds, and their digest in the trace."""
    copies = [chain.copy() for chain in chains]
    stamp = sha256(b"".join(chain.position.tobytes() for chain in copies)).hexdigest()[:16]
    step.ended = stamp, [(chain.state, chain.position, chain.rng) for chain in copies]
    tree["posterior"].attrs["ends"] = stamp


def resumed(
    step: MinibatchStep,
    model: pm.Model,
    settings: RunSettings,
    trace: Any,
    given: Mapping[str, Any],
) -> tuple[RunSettings, list[Chain]]:
    """Return the chains that go on from the last trace of a step, and settings without warm-up.

    SettingError if the trace is another one, or settings are `given` that begin chains anew.
    """
    for name, value in given.items():
        if value is not None:
            raise SettingError(
                f"{name}= does not go with resume=, whose chains go on as they are. Leave it out."
            )
    _require_last(step, model, trace)
    chains = []
    for state, position, rng in step.ended[1]:
        chain = Chain(step.program, rng, adapting=False)
        chain.state = state
        chain.place(position, np.empty(0))
        # The remembered state stays as it is: chains may go on from it again.
        chains.append(chain.copy())
    return replace(settings, chains=len(chains), tune=0), chains


def _require_last(step: MinibatchStep, model: pm.Model, trace: Any) -> None:
    name = type(step).__name__
    if not isinstance(trace, xr.DataTree) or "posterior" not in trace.children:
        raise SettingError(
            f"resume={type(trace).__name__} is no trace. Pass the trace that sample(step) returns."
        )
    posterior = trace["posterior"]
    drew = posterior.attrs.get("step", "no step of sample()")
    if drew != name:
        raise SettingError(
            f"resume= is a trace of {drew}, not of this {name}. Pass the step that sampled it."
        )
    others = [str(x) for x in posterior.data_vars if x not in model.named_vars]
    if others:
        raise SettingError(
            f"resume= has {others[0]!r}, which is no variable of this model. Pass the step that "
            "sampled it."
        )
    if posterior.attrs.get("ends") != step.ended[0]:
        raise SettingError(
            f"resume= is not the last trace of this {name}, and a step remembers where its last "
            "chains ended only. Pass that trace, or the last draws as initvals=."
        )


def numbered_on(draws: Draws, before: xr.DataTree | None) -> Draws:
    """Return draws with the numbers that follow those of the trace before, and its chains."""
    if before is None:
        return draws
    posterior, own = before["posterior"], draws.coords
    first = int(posterior["draw"].to_numpy()[-1]) + int(posterior.attrs["thin"])
    chains = posterior["chain"].to_numpy()[own["chain"]]
    return replace(draws, coords={"chain": chains, "draw": own["draw"] + first})
