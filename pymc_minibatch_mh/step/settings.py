"""Checks of the settings that all step methods share."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.bounds.user_ranges import Ranges
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.methods.base import Method
from pymc_minibatch_mh.methods.chi import chi_for_gap
from pymc_minibatch_mh.model.reading.inputs import value_variables
from pymc_minibatch_mh.preparation.sharing import ReadingSettings
from pymc_minibatch_mh.proposals.base import Proposal, is_number, positive_definite
from pymc_minibatch_mh.proposals.mixture import Mixture
from pymc_minibatch_mh.step.schedule import schedule_of
from pymc_minibatch_mh.step.shared import DEFAULTS, SharedSettings


def own_variables(model: pm.Model, vars: Sequence[Variable] | None) -> list[Variable]:
    """Return the value variables of a step: those asked for, or all continuous ones."""
    if vars is None:
        return [v for v in model.value_vars if np.dtype(v.dtype).kind == "f"]
    return value_variables(model, vars)


def shared(step: type, given: SharedSettings) -> SharedSettings:
    """Return all shared settings of a step: those that were given, and the defaults.

    Raises
    ------
    SettingError
        If one was given that a step does not have; names those that it has.
    """
    unknown = [name for name in given if name not in DEFAULTS]
    if unknown:
        known = sorted(signature(step).parameters.keys() - {"vars"})
        raise SettingError(f"{unknown[0]}= is no setting of {step.__name__}. Choose from {known}.")
    every = DEFAULTS | given
    # What a step on the first of these rows has found.
    return every | {"prepared": getattr(every["prepared"], "prepared", every["prepared"])}


@dataclass(frozen=True)
class ChainSettings:
    """Settings that chains run by.

    Parameters
    ----------
    tune
        Whether to adapt in warm-up.
    temperature
        Temperature K of the log-likelihood, the last of a schedule.
    schedule
        The schedule of temperatures; empty without one.
    updates_per_draw
        Updates between two draws.
    proposal
        The proposal.
    """

    tune: bool
    temperature: float
    schedule: tuple[tuple[int, float], ...]
    updates_per_draw: int
    proposal: Proposal


def of_chains(shared: SharedSettings) -> ChainSettings:
    """Check the settings that chains run by, before a model is read.

    Raises
    ------
    SettingError
        If one of them is invalid.
    """
    together(shared["blocked"])
    # Whether it suits the rows is known once they are read; what it may be at all is now.
    tune = flag("tune", shared["tune"])
    schedule = schedule_of(shared["temperature"], tune)
    taylor_order_of(shared["taylor_order"], centre=shared["centre"], schedule=schedule)
    return ChainSettings(
        tune,
        schedule[-1][1] if schedule else positive("temperature", shared["temperature"]),
        schedule,
        integer("updates_per_draw", shared["updates_per_draw"]),
        proposal_of(shared["proposal"]),
    )


def reading_of(shared: SharedSettings, *, given_bounds: bool = False) -> "ReadingSettings":
    """Return how the model is to be read.

    Parameters
    ----------
    shared
        Settings of a step.
    given_bounds
        Whether bounds or ranges are the user's own, which are in terms of the model's variables.

    Raises
    ------
    SettingError
        If `coordinates` are unknown.
    """
    coordinates = shared["coordinates"]
    if coordinates not in ("auto", "model"):
        raise SettingError(f"coordinates={coordinates!r} is unknown. Use 'auto' or 'model'.")
    in_own_terms = given_bounds or proposal_of(shared["proposal"]).in_own_terms
    return ReadingSettings(
        shared["observed"],
        shared["weights"],
        shared["observation_dims"],
        shared["compile_kwargs"],
        coordinates == "auto" and shared["centre"] == "auto" and not in_own_terms,
    )


def moves_without_rows_of(
    setting: int | str, name: str, method: "Method", proposal: Proposal
) -> int | None:
    """Return the number of moves without rows, or None for "auto".

    Parameters
    ----------
    setting
        The user's choice.
    name
        Name of the step's class.
    method, proposal
        What such moves would lie in between of.
    """
    if isinstance(setting, str) and setting == "auto":
        return None
    if isinstance(setting, bool) or not isinstance(setting, int | np.integer) or setting < 0:
        raise SettingError(
            f"moves_without_rows={setting!r} is not an integer of 0 or more. Give one, or 'auto'."
        )
    if setting and not method.moves_without_rows:
        raise SettingError(
            f"moves_without_rows={setting!r} does not go with {name}: all that it remembers of "
            "rows depends on every coordinate. Leave it out."
        )
    if setting and proposal.moves_without_rows is False:
        raise SettingError(
            f"moves_without_rows={setting!r} does not go with {type(proposal).__name__}: one "
            "coordinate alone would leave the manifold. Leave it out."
        )
    return int(setting)


def together(blocked: bool) -> None:
    """Refuse what PyMC understands as a step for each variable."""
    if not blocked:
        raise SettingError(
            "blocked=False would give each variable its own step, but all move together here. "
            "Leave it out."
        )


def taylor_order_of(
    setting: int | str,
    discrete: Sequence[str] = (),
    centre: str = "auto",
    schedule: Sequence[tuple[int, float]] = (),
) -> int:
    """Return the order of the control variates; "auto" is 2 where rows can be expanded.

    Parameters
    ----------
    setting
        The user's choice.
    discrete
        Names of the discrete variables that rows depend on, in which nothing can be expanded.
    centre
        Where the centre is; around a start nothing is expanded.
    schedule
        Schedule of temperatures, each of which would need an expansion of its own.
    """
    if centre not in ("auto", "start"):
        raise SettingError(f"centre={centre!r} is unknown. Use 'auto' or 'start'.")
    if setting == "auto":
        return 0 if discrete or schedule or centre == "start" else 2
    if setting in (0, 1, 2) and not isinstance(setting, bool):
        if setting and centre == "start":
            raise SettingError(
                f"taylor_order={setting} needs a centre that is sought, but centre='start'. Use "
                "taylor_order=0, or leave centre= out."
            )
        if setting and schedule:
            raise SettingError(
                f"taylor_order={setting} does not go with a schedule of temperatures, as control "
                "variates hold one temperature. Use taylor_order=0, or one temperature."
            )
        if setting and discrete:
            raise SettingError(
                f"taylor_order={setting} needs rows that can be expanded, but they depend on the "
                f"discrete variable {discrete[0]!r}. Use taylor_order=0, or marginalise it."
            )
        return int(setting)
    raise SettingError(f"taylor_order={setting!r} is unknown. Use 'auto', 0, 1 or 2.")


def covariance_of(shared: SharedSettings, size: int) -> np.ndarray | None:
    """Return the covariance around a centre that is the start; None where it is sought.

    Raises
    ------
    SettingError
        If it is no positive definite matrix of as many lines as the position has coordinates, or
        the centre is sought.
    """
    given = shared["covariance"]
    if shared["centre"] != "start":
        if given is not None:
            raise SettingError(
                "covariance= is for centre='start'; around a mode the posterior's own is known. "
                "Leave it out, or set centre='start'."
            )
        return None
    return np.eye(size) if given is None else positive_definite("covariance", given, size)


def proposal_of(setting: Proposal | str) -> Proposal:
    """Return the proposal; "auto" mixes Laplace moves and a random walk."""
    if setting == "auto":
        return Mixture()
    if isinstance(setting, Proposal):
        return setting
    raise SettingError(
        f"proposal={setting!r} is unknown. Use 'auto', RandomWalk(), Laplace() or Mixture()."
    )


def positive(name: str, value: Any) -> float:
    """Return `value` if it is a positive finite number."""
    if not isinstance(value, bool) and isinstance(value, int | float | np.integer | np.floating):
        number = float(value)
        if np.isfinite(number) and number > 0.0:
            return number
    raise SettingError(f"{name}={value!r} is not a positive number. Give a number above 0.")


def flag(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise SettingError(f"{name}={value!r} is neither True nor False. Give one of them.")
    return bool(value)


def chi_of(chi: float | str, spectral_gap_ratio: float | None) -> float | None:
    """Return χ, or None for "auto"."""
    if spectral_gap_ratio is not None:
        if chi != "auto":
            raise SettingError(
                f"chi={chi!r} and spectral_gap_ratio={spectral_gap_ratio!r} both set χ. Give one."
            )
        return chi_for_gap(positive("spectral_gap_ratio", spectral_gap_ratio))
    if isinstance(chi, str) and chi == "auto":
        return None
    number = isinstance(chi, int | float | np.integer | np.floating) and not isinstance(chi, bool)
    if not number or not 0.0 <= float(chi) < np.inf:
        raise SettingError(
            f"chi={chi!r} is not a number of 0 or more. Give one, or 'auto' to have it chosen."
        )
    return float(chi)


def bounds_of(setting: Any) -> Any:
    """Return bounds that are derived or given in full; an array of the user is copied."""
    if isinstance(setting, Bounds):
        return replace(setting, c=deepcopy(setting.c))
    if setting is None or callable(setting):
        return setting
    raise SettingError(
        f"bounds={type(setting).__name__} is not a set of bounds. Pass Bounds(c, metric), or a "
        "function that returns it for the centre that it is called with."
    )


def ranges_of(setting: Any) -> Any:
    """Return ranges that are derived or given in full; arrays of the user are copied."""
    if isinstance(setting, Ranges):
        return deepcopy(setting)
    if setting is None or callable(setting):
        return setting
    raise SettingError(
        f"ranges={type(setting).__name__} is not a set of ranges. Pass Ranges(low, high), or a "
        "function that returns it for the centre that it is called with."
    )


def lam_of(lam: float | str) -> float | None:
    """Return λ, or None for "auto"."""
    if isinstance(lam, str) and lam == "auto":
        return None
    number = isinstance(lam, int | float | np.integer | np.floating) and not isinstance(lam, bool)
    if not number or not 0.0 < float(lam) < np.inf:
        raise SettingError(
            f"lam={lam!r} is not a positive number. Give one, or 'auto' to have it chosen."
        )
    return float(lam)


def integer(name: str, value: Any, least: int = 1) -> int:
    """Return `value` if it is an integer of at least `least`."""
    if not isinstance(value, bool) and isinstance(value, int | np.integer) and value >= least:
        return int(value)
    raise SettingError(f"{name}={value!r} is not an integer of {least} or more. Give one.")


def rows_or_auto(name: str, value: float | str) -> float | None:
    """Return a number of rows, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if is_number(value) and float(value) >= 0.0:
        return float(value)
    raise SettingError(
        f"{name}={value!r} is no number of rows. Give one of 0 or more, math.inf for no limit, or "
        "'auto'."
    )


def violation_rule(setting: str) -> bool:
    """Return whether a chain goes on after a violated bound."""
    if setting not in ("raise", "warn"):
        raise SettingError(
            f"on_violation={setting!r} is unknown. Use 'raise', or 'warn' to go on and have the "
            "trace marked as not exact."
        )
    return setting == "warn"
