"""Checks of the settings that all step methods share."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from inspect import signature
from os import PathLike
from typing import Any, TypedDict

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from pymc.step_methods.compound import BlockedStep
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.checks import choice, flag, integer, is_number, positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.factorization import require_continuous
from pymc_minibatch_mh.model.inputs import Weights, value_variables
from pymc_minibatch_mh.plan.method import Method
from pymc_minibatch_mh.plan.prepare import ByElements, ReadingSettings
from pymc_minibatch_mh.proposals.base import Proposal, positive_definite
from pymc_minibatch_mh.proposals.mixture import Mixture
from pymc_minibatch_mh.reference.posterior import Target


class SharedSettings(TypedDict, total=False):
    """The settings that every step takes besides its own.

    Parameters
    ----------
    taylor_order : {"auto", 0, 1, 2}
        Order of the control variates.
    centre : {"auto", "start"}
        Their centre: near the posterior's mode, or `initial_point`. "start" is for posteriors
        without a mode: it uses no expansion (``taylor_order=0``), and chains start where PyMC
        starts them.
    covariance : array of shape (d, d), optional
        Metric of distances and proposals with ``centre="start"``; by default the identity.
    coordinates : {"auto", "model"}
        "auto" reparametrises hierarchies so that the likelihood is linear in its parameters: for
        ``mu + tau * z`` the chain samples α = mu + tau z. Draws are mapped back, and the Jacobian
        determinant keeps them exact. "model" samples the model's variables. So does "auto" if
        another setting is in their terms: ``centre="start"``, custom bounds or ranges, the
        covariance of a walk, or a custom proposal.
    blocks : {"auto", True, False}
        Whether group effects are accepted or rejected one at a time, each from the observations of
        its own group. "auto" does so for 200 effects or more, if an index of the data chooses them,
        the prior is a sum over them, and the step uses derived bounds. See
        :mod:`pymc_minibatch_mh.native.elements`.
    proposal : Proposal or "auto"
        Such as :func:`RandomWalk`, :func:`Laplace` or :class:`Mixture`.
    temperature : float or list of (draw, float)
        K > 0, which divides the log-likelihood, so the trace samples the tempered posterior
        (statistic ``temperature``). A schedule ``[(0, 100), (400, 1)]`` starts at K = 100 and
        continues at K = 1 from draw 400 of warm-up. It has to end in warm-up: draws are kept only
        at its last temperature. A schedule needs ``taylor_order=0``, which "auto" then selects.
        Source: Seita et al. (2017), section 6.2, doi:10.48550/arXiv.1610.06848.
    observed : list of str, optional
        Observed variables to subsample; by default all with 1,000 observations or more.
    weights : array of shape (N,) or dict, optional
        Factors of the observations' log-likelihoods: survey weights, importance weights or counts
        of equal observations. A dictionary has one array for each name of an observed variable.
        For data in :class:`Rows`, weights are an array of the same, ``rows.data("w")``.
    observation_dims : tuple of str
        Dims along which observations lie; by default the first axis.
    prepared : path or step, optional
        Preparation to reuse: a file of ``step.save`` for the same model and data, or a step on the
        first of these observations, in :class:`Rows`. Then only new observations are evaluated,
        unless they move the mode by more than half a posterior standard deviation or are more than
        a quarter of all.
    updates_per_draw : int
        Updates between two kept draws.
    full_pass_above : float or "auto"
        Batch size above which the full data decide, because one pass in order is then as fast; by
        default half of the observations. With ``math.inf`` they decide only if the test itself asks
        for them, as published.
    moves_without_rows : int or "auto"
        Slice moves after each update along directions that do not change the likelihood, such as
        the scale of group effects, or a mean against the effects that are added to it. They are
        exact for every method. "auto" takes each direction once, or 10 of them in turn. The default
        of :class:`OwnMove` is 0, because it may have to stay on a set of positions;
        :class:`FireflyMH` allows only 0. Source: Neal (2003), doi:10.1214/aos/1056562461.
    tune : bool
        Whether to adapt in warm-up.
    model, rng, initial_point, compile_kwargs, blocked
        As in PyMC's step methods. The search for the mode starts at `initial_point`.
    """

    taylor_order: int | str
    centre: str
    covariance: ArrayLike | None
    coordinates: str
    blocks: bool | str
    proposal: Proposal | str
    temperature: float | Sequence[tuple[int, float]]
    observed: Sequence[str] | None
    weights: Weights | None
    observation_dims: Sequence[str]
    prepared: str | PathLike | BlockedStep | None
    updates_per_draw: int
    full_pass_above: float | str
    moves_without_rows: int | str
    tune: bool
    model: pm.Model | None
    rng: Any
    initial_point: Mapping[str, np.ndarray] | None
    compile_kwargs: Mapping[str, Any] | None
    blocked: bool


#: Defaults of the shared settings.
DEFAULTS: SharedSettings = {
    "taylor_order": "auto",
    "centre": "auto",
    "covariance": None,
    "coordinates": "auto",
    "blocks": "auto",
    "proposal": "auto",
    "temperature": 1.0,
    "observed": None,
    "weights": None,
    "observation_dims": (),
    "prepared": None,
    "updates_per_draw": 1,
    "full_pass_above": "auto",
    "moves_without_rows": "auto",
    "tune": True,
    "model": None,
    "rng": None,
    "initial_point": None,
    "compile_kwargs": None,
    "blocked": True,
}


def schedule_of(setting: Any, tune: bool) -> tuple[tuple[int, float], ...]:
    """Return the schedule that temperature= is, empty where it is one temperature.

    SettingError if a schedule is no sequence of pairs (draw, K) with draws that ascend from 0 and
    K > 0, or if there is no warm-up for it.
    """
    if not isinstance(setting, list | tuple):
        return ()
    draws = [pair[0] for pair in setting if _is_stage(pair)]
    ascending = draws[:1] == [0] and draws == sorted(set(draws))
    if not ascending or len(draws) < len(setting):
        raise SettingError(
            f"temperature={setting!r} is not a schedule of temperatures. Give pairs (draw, K) "
            "with draws that ascend from 0 and K above 0, such as [(0, 100), (400, 1)]."
        )
    if not tune:
        raise SettingError(
            f"temperature={setting!r} is a schedule for warm-up, which tune=False leaves out. Use "
            "tune=True, or one temperature."
        )
    return tuple((int(draw), float(temperature)) for draw, temperature in setting)


def _is_stage(pair: Any) -> bool:
    """Whether something is a pair (draw, K) with an integer of 0 or more and a number above 0."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False
    draw, temperature = pair
    if not all(map(is_number, pair)):
        return False
    return isinstance(draw, int | np.integer) and bool(draw >= 0 and 0.0 < temperature < np.inf)


def require_warm_up_for(schedule: Sequence[tuple[int, float]], tune: int) -> None:
    """Refuse a warm-up that ends before the last temperature of a schedule is reached."""
    if schedule and tune < schedule[-1][0]:
        raise SettingError(
            f"temperature={list(schedule)!r} reaches its last temperature at draw "
            f"{schedule[-1][0]}, after a warm-up of tune={tune} draws has ended. Raise tune=, or "
            "shorten the schedule."
        )


def own_variables(model: pm.Model, vars: Sequence[Variable] | None) -> list[Variable]:
    """Return the value variables of a step: those asked for, or all continuous ones."""
    if vars is None:
        vars = [v for v in model.value_vars if np.dtype(v.dtype).kind == "f"]
    own = value_variables(model, vars)
    # Before the model's own point is compiled.
    require_continuous(model, own)
    return own


def shared(step: type, given: SharedSettings) -> SharedSettings:
    """Return all shared settings of a step: those that were given, and the defaults.

    SettingError if one was given that a step does not have; names those that it has.
    """
    unknown = [name for name in given if name not in DEFAULTS]
    if unknown:
        known = sorted(signature(step).parameters.keys() - {"vars"})
        near = "".join(f" Did you mean {x!r}?" for x in get_close_matches(unknown[0], known, n=1))
        raise SettingError(
            f"{unknown[0]}= is not a setting of {step.__name__}.{near} Choose from {known}."
        )
    every = DEFAULTS | given
    # Of a step on the first of these rows, its plan.
    return every | {"prepared": getattr(every["prepared"], "plan", every["prepared"])}


#: Settings that say nothing of the law of draws.
_UNSAID = {"vars", "model", "rng", "initial_point", "compile_kwargs", "prepared", "blocked"}


def in_words(step: type, given: Mapping[str, Any]) -> str:
    """Return settings that are not the defaults, such as "chi=2.0, taylor_order=1"."""
    known = signature(step).parameters
    plain = str | bool | int | float | list | tuple | Proposal | None
    said = {
        name: repr(value) if isinstance(value, plain) else type(value).__name__
        for name, value in given.items()
        if name in known and name not in _UNSAID
    }
    return ", ".join(f"{x}={words}" for x, words in said.items() if words != repr(known[x].default))


@dataclass(frozen=True)
class ChainSettings:
    """Settings that chains run by; the temperature is the last of a schedule."""

    tune: bool
    temperature: float
    schedule: tuple[tuple[int, float], ...]
    updates_per_draw: int
    proposal: Proposal


def chain_settings(shared: SharedSettings) -> ChainSettings:
    """Check the settings that chains run by, before a model is read."""
    if not shared["blocked"]:
        raise SettingError(
            "blocked=False would give each variable its own step, but one step updates all of "
            "them here. Leave it out."
        )
    # Whether it suits the rows is known once they are read.
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


def reading_settings(shared: SharedSettings, *, given_bounds: bool = False) -> "ReadingSettings":
    """Return how the model is to be read.

    Bounds or ranges of a user's own are in terms of the model's variables.
    """
    coordinates = shared["coordinates"]
    choice("coordinates", coordinates, ("auto", "model"))
    in_own_terms = given_bounds or proposal_of(shared["proposal"]).in_own_terms
    return ReadingSettings(
        shared["observed"],
        shared["weights"],
        shared["observation_dims"],
        shared["compile_kwargs"],
        coordinates == "auto" and shared["centre"] == "auto" and not in_own_terms,
    )


def moves_without_rows_of(setting: int | str) -> int | None:
    """Return the number of moves without rows, or None for "auto"."""
    if isinstance(setting, str) and setting == "auto":
        return None
    if isinstance(setting, bool) or not isinstance(setting, int | np.integer) or setting < 0:
        raise SettingError(
            f"moves_without_rows={setting!r} is not an integer of 0 or more. Give one, or 'auto'."
        )
    return int(setting)


def taylor_order_of(
    setting: int | str,
    discrete: Sequence[str] = (),
    centre: str = "auto",
    schedule: Sequence[tuple[int, float]] = (),
) -> int:
    """Return the order of the control variates; "auto" is 2 where rows can be expanded.

    Nothing can be expanded in `discrete` variables, around a start, or under a schedule of
    temperatures, each of which would need an expansion of its own.
    """
    choice("centre", centre, ("auto", "start"))
    if setting == "auto":
        return 0 if discrete or schedule or centre == "start" else 2
    if setting in (0, 1, 2) and not isinstance(setting, bool):
        if setting and centre == "start":
            raise SettingError(
                f"taylor_order={setting} needs a centre near the mode, but centre='start'. Use "
                "taylor_order=0, or leave centre= out."
            )
        if setting and schedule:
            raise SettingError(
                f"taylor_order={setting} does not go with a schedule of temperatures, because "
                "control variates depend on the temperature. Use taylor_order=0, or one "
                "temperature."
            )
        if setting and discrete:
            raise SettingError(
                f"taylor_order={setting} needs a Taylor expansion, but observations depend on the "
                f"discrete variable {discrete[0]!r}. Use taylor_order=0, or marginalise it."
            )
        return int(setting)
    raise SettingError(f"taylor_order={setting!r} is unknown. Use 'auto', 0, 1 or 2.")


#: Coordinates that rows choose by an index of the data, from which on each is accepted by itself.
MANY_ELEMENTS = 200


def _elements_refused(shared: SharedSettings, method: "Method", target: Target) -> str:
    """Return why the settings of a step do not let elements be accepted by themselves, or ""."""
    reasons = {
        "proposal= is given": shared["proposal"] != "auto",
        "data of Rows(...) are fetched ahead": not target.source.in_memory,
        "control variates are not of order 2 around a mode": target.taylor_order != 2,
        "temperature= is a schedule": isinstance(shared["temperature"], list | tuple),
        "other steps update variables of the likelihood": target.factorization.first > 0,
    }
    return next((why for why, holds in reasons.items() if holds), method.refuses_elements)


def by_elements(shared: SharedSettings, method: "Method", target: Target) -> ByElements:
    """Return whether elements are to be accepted by themselves.

    SettingError if that is asked for and settings do not let it be.
    """
    setting, refused = shared["blocks"], _elements_refused(shared, method, target)
    if isinstance(setting, str) and setting == "auto":
        many = not refused and target.n_elements >= MANY_ELEMENTS
        return "where separable" if many else "never"
    if not isinstance(setting, bool | np.bool_):
        raise SettingError(f"blocks={setting!r} is unknown. Use 'auto', True or False.")
    if setting and refused:
        raise SettingError(
            f"blocks=True does not go with this step, because {refused}. Leave it out."
        )
    return "always" if setting else "never"


def covariance_of(shared: SharedSettings, size: int) -> np.ndarray | None:
    """Return the covariance around a centre that is the start; None where it is sought."""
    given = shared["covariance"]
    if shared["centre"] != "start":
        if given is not None:
            raise SettingError(
                "covariance= is for centre='start' only; around a mode, the posterior covariance "
                "is used. Leave it out, or set centre='start'."
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


def rows_or_auto(name: str, value: float | str) -> float | None:
    """Return a number of rows, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if is_number(value) and float(value) >= 0.0:
        return float(value)
    raise SettingError(
        f"{name}={value!r} is not a number of observations. Give one of 0 or more, math.inf for "
        "no limit, or 'auto'."
    )


def violation_rule(setting: str) -> bool:
    """Return whether a chain goes on after a violated bound."""
    if setting not in ("raise", "warn"):
        raise SettingError(
            f"on_violation={setting!r} is unknown. Use 'raise', or 'warn' to go on and have the "
            "trace marked as not exact."
        )
    return setting == "warn"
