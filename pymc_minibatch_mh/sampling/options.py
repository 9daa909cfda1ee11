"""What sampling takes besides what nearly every call says."""

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any, TypedDict

from pymc_minibatch_mh.errors import SettingError


class Options(TypedDict, total=False):
    """Arguments of :func:`pymc_minibatch_mh.sample`, which describes them."""

    thin: int
    initvals: Any
    var_names: Sequence[str] | None
    progressbar: bool
    discard_tuned_samples: bool
    compute_convergence_checks: bool


DEFAULTS: Options = {
    "thin": 1,
    "initvals": None,
    "var_names": None,
    "progressbar": True,
    "discard_tuned_samples": True,
    "compute_convergence_checks": True,
}


def asked_of(given: Options) -> Options:
    """Return all options: those that were given, and the defaults.

    Raises
    ------
    SettingError
        If one is unknown.
    """
    unknown = [name for name in given if name not in DEFAULTS]
    if unknown:
        raise SettingError(
            f"{unknown[0]}= is no argument of sample(). Choose from {sorted(DEFAULTS)}, or from "
            "its first ones."
        )
    return DEFAULTS | given


def showing_all[F: Callable[..., Any]](function: F) -> F:
    """Let help and editors show the options among the arguments of a function."""
    own = signature(function)
    named = [p for p in own.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    types = Options.__annotations__
    passed_on = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=types[name])
        for name, default in DEFAULTS.items()
    ]
    shown = Signature([*named, *passed_on], return_annotation=own.return_annotation)
    function.__signature__ = shown  # type: ignore[attr-defined]
    return function
