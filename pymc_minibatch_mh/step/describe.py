"""What a step shows of itself: its class's signature and docstring, and what it is in a line."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc, signature
from typing import TYPE_CHECKING

from pymc_minibatch_mh.step.shared import DEFAULTS, SharedSettings

if TYPE_CHECKING:
    from pymc_minibatch_mh.step.base import MinibatchStep

#: What stands in the docstring of a step class in place of the settings that all steps share.
SHARED = """**settings
    What all step methods take: see :class:`SharedSettings`."""


def signature_of(constructor: Callable[..., None]) -> Signature:
    """Return the signature of a step class: its own settings, then those that it passes on.

    Parameters
    ----------
    constructor
        Its ``__init__``.
    """
    _, *own = signature(constructor).parameters.values()
    named = [p for p in own if p.kind is not Parameter.VAR_KEYWORD]
    if named == own:
        return Signature(own)
    types = SharedSettings.__annotations__
    passed_on = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
        for name, default in DEFAULTS.items()
        if name not in signature(constructor).parameters
    ]
    return Signature([*named, *passed_on])


def docstring_of(docstring: str) -> str:
    """Return a docstring with the description of all shared settings in place of ``SHARED``."""
    *_, settings = cleandoc(SharedSettings.__doc__ or "").partition("----------\n")
    return cleandoc(docstring).replace(SHARED, settings)


def line_about(step: MinibatchStep) -> str:
    """Return what a step is, such as "TunaMH(3 parameters, 10,000 rows of 'y', ...)"."""
    size = step.target.split.size - step.prepared.surrogate.first
    rows = " and ".join(f"{t.n_rows:,} rows of {t.name!r}" for t in step.target.split.terms)
    facts = [
        f"{size} parameter{'s' * (size != 1)}",
        rows,
        step.guarantee.promise.value,
        f"order {step.prepared.surrogate.order}",
    ]
    if step.program.schedule:
        facts.append(
            "temperatures " + ", ".join(f"{k:g} from {n}" for n, k in step.program.schedule)
        )
    elif step.temperature != 1.0:
        facts.append(f"temperature {step.temperature:g}")
    return f"{type(step).__name__}({', '.join(facts)})"
