"""Settings of step methods: records that define signatures, docstrings, keys and descriptions."""

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial, wraps
from inspect import Parameter, Signature, cleandoc, get_annotations, signature
from os import PathLike
from typing import Any, Concatenate, cast

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from pymc.step_methods.compound import BlockedStep
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.checks import (
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    is_number,
)
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.factorization import require_continuous
from pymc_minibatch_mh.model.inputs import as_generator, resolve_point, value_variables
from pymc_minibatch_mh.plan.method import Method
from pymc_minibatch_mh.plan.plan import TOGETHER, EffectMoves
from pymc_minibatch_mh.plan.prepare import ReadingSettings, SharedModel
from pymc_minibatch_mh.proposals.base import Proposal, positive_definite
from pymc_minibatch_mh.proposals.mixture import Mixture
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reference.third_order import objection_to_third_order

#: Function from the name and value of a setting to the checked value; raises SettingError.
Check = Callable[[str, Any], Any]


def or_auto(check: Check) -> Check:
    """Check of a setting that may also be "auto"."""
    return lambda name, value: (
        value if isinstance(value, str) and value == "auto" else check(name, value)
    )


def value_check(
    holds: Callable[[Any], bool], problem: str, kind: Callable[[Any], Any] = lambda value: value
) -> Check:
    """Function that checks a value by `holds` and converts it by `kind`; `problem`: error text."""

    def check(name: str, value: Any) -> Any:
        if not holds(value):
            raise SettingError(f"{name}={value!r} {problem}")
        return kind(value)

    return check


def number_check(least: float, most: float, problem: str) -> Check:
    """Check of a number from `least` to `most`; the `problem` is the error message."""
    return value_check(lambda x: is_number(x) and least <= float(x) <= most, problem, float)


def setting_field(
    check: Check | None = None,
    *,
    default: Any = MISSING,
    key: Callable[[Any], str] | None = repr,
    described: bool = True,
) -> Any:
    """Field of a record of settings; it is required without a default.

    The `check` converts valid values and raises SettingError for others. The `key` gives text that
    identifies a value in every process; it is None if the step's key has the value elsewhere.
    `described` values appear in descriptions of a step.
    """
    return field(default=default, metadata={"check": check, "key": key, "described": described})


def _is_stage(pair: Any) -> bool:
    """Whether a value is a pair (draw, K) of an integer draw >= 0 and a finite K > 0."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False
    draw, temperature = pair
    if not all(map(is_number, pair)):
        return False
    return isinstance(draw, int | np.integer) and bool(draw >= 0 and 0.0 < temperature < np.inf)


def _check_temperature(name: str, value: Any) -> float | list[tuple[int, float]]:
    """Check of one temperature, or of pairs (draw, K) with K > 0 and draws ascending from 0."""
    if not isinstance(value, list | tuple):
        return check_positive(name, value)
    draws = [pair[0] for pair in value if _is_stage(pair)]
    ascending = draws[:1] == [0] and draws == sorted(set(draws))
    if not ascending or len(draws) < len(value):
        raise SettingError(
            f"{name}={value!r} is not a schedule of temperatures. Give pairs (draw, K) "
            "with draws that ascend from 0 and K above 0, such as [(0, 100), (400, 1)]."
        )
    return [(int(draw), float(temperature)) for draw, temperature in value]


_check_order = value_check(
    lambda value: value in (0, 1, 2, 3) and not isinstance(value, bool),
    "is unknown. Use 'auto', 0, 1, 2 or 3.",
    int,
)
_check_blocks = value_check(
    lambda value: isinstance(value, bool | np.bool_) or value == "groups",
    "is unknown. Use 'auto', 'groups', True or False.",
)
_check_proposal = value_check(
    lambda value: isinstance(value, Proposal),
    "is unknown. Use 'auto', RandomWalk(), Laplace() or Mixture().",
)
_check_slice_moves = value_check(
    lambda n: isinstance(n, int | np.integer) and not isinstance(n, bool) and bool(n >= 0),
    "is not an integer of 0 or more. Give one, or 'auto'.",
    int,
)
#: Check of the reaction to a violated bound, "raise" or "warn".
check_violation = value_check(
    lambda value: value in ("raise", "warn"),
    "is unknown. Use 'raise', or 'warn' to go on and have the trace marked as not exact.",
    str,
)


def _check_blocked(name: str, value: Any) -> bool:
    if not value:
        raise SettingError(
            f"{name}=False would give each variable its own step, but one step updates all of "
            "them here. Leave it out."
        )
    return True


#: Minimum number of indexed effects for which "auto" accepts or rejects one at a time; of effects
#: in several alternatives of a softmax, whose joint bounds are looser.
MIN_EFFECTS, MIN_IN_SOFTMAX = 200, 20
#: Error message for an invalid limit on the number of observations.
_NO_LIMIT = (
    "is not a number of observations. Give one of 0 or more, math.inf for no limit, or 'auto'."
)
#: Types whose values descriptions show directly.
PLAIN = str | bool | int | float | list | tuple | Proposal | None


@dataclass(frozen=True)
class SharedSettings(ReadingSettings):
    """The settings that every step takes besides those of its method.

    Parameters
    ----------
    vars : list of variables, optional
        Variables to update; by default all continuous ones. Other steps update the rest.
    observed : list of str, optional
        Observed variables to subsample; by default all with 1,000 observations or more.
    weights : array of shape (N,) or dict, optional
        Factors of the observations' log-likelihoods: survey weights, importance weights or counts
        of equal observations. A dictionary has one array for each name of an observed variable.
        For data in :class:`Rows`, weights are an array of the same, ``rows.data("w")``.
    observation_dims : tuple of str
        Dims along which observations lie; by default the first axis.
    compile_kwargs : dict, optional
        As in PyMC's step methods.
    taylor_order : {"auto", 0, 1, 2, 3}
        Order of the control variates; 3 only for observations with one linear predictor. "auto" is
        2, or 3 where a forecast has far fewer candidates at order 3, or 1 where gradients jump.
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
    blocks : {"auto", "groups", True, False}
        How group effects are sampled. "groups" integrates the largest factor's effects out: its
        groups are the observations, and stored draws have exact draws of the effects. True accepts
        effects one at a time, each from the observations of its own group; False proposes all
        parameters jointly. "auto", for 200 effects or more, uses "groups" if a row's group has at
        most 70 rows on average, else True. It also uses True for 20 effects or more that multiply
        data of several alternatives of a softmax. Both need effects that an index of the data
        chooses, and a prior that is a sum over them; True also needs derived bounds. See
        :mod:`pymc_minibatch_mh.plan.groups` and :mod:`pymc_minibatch_mh.native.elements`.
    proposal : Proposal or "auto"
        Such as :func:`RandomWalk`, :func:`Laplace` or :class:`Mixture`.
    temperature : float or list of (draw, float)
        K > 0, which divides the log-likelihood, so the trace samples the tempered posterior
        (statistic ``temperature``). A schedule ``[(0, 100), (400, 1)]`` starts at K = 100 and
        continues at K = 1 from draw 400 of warm-up. It has to end in warm-up: draws are kept only
        at its last temperature. A schedule needs ``taylor_order=0``, which "auto" then selects.
        Source: Seita et al. (2017), section 6.2, doi:10.48550/arXiv.1610.06848.
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
        of :class:`CustomProposal` is 0, because it may have to stay on a set of positions;
        :class:`FireflyMH` allows only 0. Source: Neal (2003), doi:10.1214/aos/1056562461.
    tune : bool
        Whether to adapt in warm-up.
    model, rng, initial_point, blocked
        As in PyMC's step methods. The search for the mode starts at `initial_point`.
    """

    vars: Sequence[Variable] | None = setting_field(default=None, described=False)
    _: KW_ONLY
    taylor_order: int | str = setting_field(or_auto(_check_order), default="auto")
    centre: str = setting_field(partial(check_choice, known=("auto", "start")), default="auto")
    covariance: ArrayLike | None = setting_field(default=None)
    coordinates: str = setting_field(partial(check_choice, known=("auto", "model")), default="auto")
    blocks: bool | str = setting_field(or_auto(_check_blocks), default="auto")
    proposal: Proposal | str = setting_field(or_auto(_check_proposal), default="auto")
    temperature: float | Sequence[tuple[int, float]] = setting_field(
        _check_temperature, default=1.0
    )
    # A step is accepted, too: the check converts it to its plan.
    prepared: str | PathLike | BlockedStep | None = setting_field(
        lambda _, value: getattr(value, "plan", value), default=None, described=False
    )
    updates_per_draw: int = setting_field(check_integer, default=1)
    full_pass_above: float | str = setting_field(
        or_auto(number_check(0.0, np.inf, _NO_LIMIT)), default="auto"
    )
    moves_without_rows: int | str = setting_field(or_auto(_check_slice_moves), default="auto")
    tune: bool = setting_field(check_flag, default=True)
    model: pm.Model | None = setting_field(default=None, described=False)
    rng: Any = setting_field(as_generator, default=None, described=False)
    initial_point: Mapping[str, np.ndarray] | None = setting_field(default=None, described=False)
    blocked: bool = setting_field(_check_blocked, default=True, described=False)

    def __post_init__(self) -> None:
        """Check each setting, and combinations of settings, before a model is read."""
        for one in fields(self):
            if check := one.metadata.get("check"):
                object.__setattr__(self, one.name, check(one.name, getattr(self, one.name)))
        if self.schedule and not self.tune:
            raise SettingError(
                f"temperature={self.temperature!r} is a schedule for warm-up, which tune=False "
                "leaves out. Use tune=True, or one temperature."
            )
        self.order_for(())

    @property
    def schedule(self) -> tuple[tuple[int, float], ...]:
        """Temperatures of a schedule in warm-up; empty for one temperature."""
        return tuple(self.temperature) if isinstance(self.temperature, list) else ()

    @property
    def inverse_temperature(self) -> float:
        """Inverse temperature β = 1/K, with the last temperature K of a schedule."""
        return 1.0 / (self.schedule[-1][1] if self.schedule else cast("float", self.temperature))

    @property
    def used_proposal(self) -> Proposal:
        """The proposal; "auto" mixes Laplace proposals and a random walk."""
        return Mixture() if isinstance(self.proposal, str) else self.proposal

    @property
    def row_limit(self) -> float | None:
        """Batch size above which an update evaluates the full data instead; None for "auto"."""
        return None if isinstance(self.full_pass_above, str) else self.full_pass_above

    def order_for(self, discrete: Sequence[str]) -> int:
        """Order of the control variates; "auto" is 2, or later 3, if observations can be expanded.

        There is no expansion in `discrete` variables, around a start, or under a schedule of
        temperatures, where each temperature would need its own.
        """
        order = self.taylor_order
        if isinstance(order, str):
            return 0 if discrete or self.schedule or self.centre == "start" else 2
        if order and self.centre == "start":
            raise SettingError(
                f"taylor_order={order} needs a centre near the mode, but centre='start'. Use "
                "taylor_order=0, or leave centre= out."
            )
        if order and self.schedule:
            raise SettingError(
                f"taylor_order={order} does not go with a schedule of temperatures, because "
                "control variates depend on the temperature. Use taylor_order=0, or one "
                "temperature."
            )
        if order and discrete:
            raise SettingError(
                f"taylor_order={order} needs a Taylor expansion, but observations depend on the "
                f"discrete variable {discrete[0]!r}. Use taylor_order=0, or marginalise it."
            )
        return order

    def covariance_for(self, size: int) -> np.ndarray | None:
        """Covariance for centre="start", shape (d, d); None if the centre is near the mode."""
        if self.centre == "start":
            if self.covariance is None:
                return np.eye(size)
            return positive_definite("covariance", self.covariance, size)
        if self.covariance is not None:
            raise SettingError(
                "covariance= is for centre='start' only; around a mode, the posterior covariance "
                "is used. Leave it out, or set centre='start'."
            )
        return None

    def linear_for(self, method: Method) -> bool:
        """Whether a method may sample coordinates in which observations are linear.

        It may not if custom bounds or ranges refer to the model's variables.
        """
        in_own_terms = method.requirements.given or self.used_proposal.in_own_terms
        return self.coordinates == "auto" and self.centre == "auto" and not in_own_terms

    @property
    def slice_moves(self) -> int | None:
        """Number of slice proposals after an update; None for "auto"."""
        return None if isinstance(self.moves_without_rows, str) else self.moves_without_rows

    def point_of(self, model: pm.Model) -> dict[str, np.ndarray]:
        """Point at which preparation starts."""
        usual = self.initial_point is None
        return resolve_point(model, model.initial_point() if usual else self.initial_point)

    def target_of(self, read: SharedModel, point: Mapping[str, np.ndarray]) -> Target:
        """Posterior of a model, with the order, temperature and metric of a step."""
        factorization = read.compiled.factorization
        order = self.order_for(factorization.discrete_in_rows)
        covariance = self.covariance_for(factorization.size)
        target = Target(read.compiled, order, self.inverse_temperature, covariance)
        objection = objection_to_third_order(target.row_functions, factorization.size)
        if order == 3 and objection:
            raise SettingError(f"taylor_order=3 is impossible, because {objection}. Use 'auto'.")
        target.chooses_order = self.taylor_order == "auto" and order == 2
        target.condition_on(point)
        return target

    def trial_target(
        self, method: Method, point: Mapping[str, np.ndarray], read: SharedModel
    ) -> Target | None:
        """Posterior of which a trial shows the bounds of a step; None without such bounds."""
        needs = method.requirements
        if needs.bounds is None or not needs.bounds_groups or self.prepared is not None:
            return None
        target = self.target_of(read, point)
        return target if self.moves_for(method, target) == TOGETHER else None

    def moves_for(self, method: Method, target: Target) -> EffectMoves:
        """How group effects are sampled; SettingError if the setting is impossible."""
        refused = self._why_not_integrated(method, target)
        stored = "" if target.source.in_memory else "data of Rows(...) are fetched ahead"
        cubic = "control variates are of order 3" if target.taylor_order == 3 else ""
        apart = refused or stored or cubic or method.refuses_elements
        if self.blocks == "auto":
            many = target.n_elements >= MIN_EFFECTS
            several = many or target.n_in_softmax >= MIN_IN_SOFTMAX
            return EffectMoves(
                "where possible" if many and not refused else "never",
                "where possible" if several and not apart else "never",
            )
        why_not = refused if self.blocks == "groups" else apart
        if self.blocks and why_not:
            raise SettingError(
                f"blocks={self.blocks!r} does not go with this step, because {why_not}. Leave it "
                "out."
            )
        if self.blocks == "groups":
            return EffectMoves(integrated="always")
        return EffectMoves(by_elements="always" if self.blocks else "never")

    def _why_not_integrated(self, method: Method, target: Target) -> str:
        reasons = {
            "proposal= is given": self.proposal != "auto",
            "control variates are not of order 2 around a mode": target.taylor_order != 2,
            "temperature= is a schedule": bool(self.schedule),
            "other steps update variables of the likelihood": target.factorization.first > 0,
            "temperature= is not 1": target.inverse_temperature != 1.0,
            "its bounds are of single observations": not method.requirements.bounds_groups,
            "its lower bounds are too loose for groups": not method.takes_groups,
        }
        return next((why for why, holds in reasons.items() if holds), "")

    @property
    def key(self) -> str:
        """Text of the method's settings that identifies them in every process."""
        own = [one for one in fields(self) if one.name not in SHARED and one.metadata["key"]]
        return ", ".join(f"{x.name}={x.metadata['key'](getattr(self, x.name))}" for x in own)

    def describe(self) -> str:
        """Settings that are not the defaults, such as "chi=2.0, taylor_order=1"."""
        known, words = {one.name: one for one in fields(self)}, []
        for name in setting_names(type(self)):
            value = getattr(self, name)
            text = repr(value) if isinstance(value, PLAIN) else type(value).__name__
            if known[name].metadata.get("described", True) and text != repr(known[name].default):
                words.append(f"{name}={text}")
        return ", ".join(words)


#: Names of the settings that all steps share.
SHARED = ("vars", *(one.name for one in fields(SharedSettings) if one.name != "vars"))


def _records_of(method: type[SharedSettings]) -> tuple[type, ...]:
    """Settings classes of a method and its bases, without the shared settings."""
    return method.__mro__[: method.__mro__.index(SharedSettings)]


def setting_names(record: type[SharedSettings]) -> list[str]:
    """Names of all settings in signature order, the method's first."""
    names = [name for cls in _records_of(record) for name in get_annotations(cls) if name != "_"]
    return list(dict.fromkeys([*SHARED[: "vars" not in names], *names, *SHARED]))


def takes_settings[**P, S: SharedSettings](
    record: Callable[P, S],
) -> Callable[[Callable[[Any, S], None]], Callable[Concatenate[Any, P], None]]:
    """Decorator of constructors: keyword arguments become a checked record of settings."""
    cls = cast("type[SharedSettings]", record)
    known = {one.name: one for one in fields(cls)}

    def decorate_init(prepare: Callable[[Any, S], None]) -> Callable[Concatenate[Any, P], None]:
        @wraps(prepare)
        def init_from_settings(self: Any, *args: P.args, **settings: P.kwargs) -> None:
            require_known(type(self), settings, known)
            prepare(self, record(*args, **settings))

        first = [Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)]
        init_from_settings.__signature__ = Signature(  # type: ignore[attr-defined]
            first + [_parameter_of(known[name]) for name in setting_names(cls)]
        )
        init_from_settings.record = cls  # type: ignore[attr-defined]
        return init_from_settings

    return decorate_init


def _parameter_of(one: Any) -> Parameter:
    kind = Parameter.KEYWORD_ONLY if one.kw_only else Parameter.POSITIONAL_OR_KEYWORD
    default = Parameter.empty if one.default is MISSING else one.default
    return Parameter(one.name, kind, default=default, annotation=one.type)


def require_known(step: type, settings: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise SettingError, with the known names, for an unknown setting of a step."""
    unknown = [name for name in settings if name not in known]
    if unknown:
        names = sorted(signature(step).parameters.keys() - {"vars"})
        near = "".join(f" Did you mean {x!r}?" for x in get_close_matches(unknown[0], names, n=1))
        raise SettingError(
            f"{unknown[0]}= is not a setting of {step.__name__}.{near} Choose from {names}."
        )


def signature_of(constructor: Callable[..., None]) -> Signature:
    """Signature of a step class: its own settings, then the shared settings."""
    _, *parameters = signature(constructor).parameters.values()
    named = [p for p in parameters if p.kind is not Parameter.VAR_KEYWORD]
    if named == parameters:
        return Signature(parameters)
    taken, shared = {one.name for one in named} | {"vars"}, fields(SharedSettings)
    return Signature([*named, *(_parameter_of(one) for one in shared if one.name not in taken)])


#: Shared settings in the docstring of a step class.
IN_BRIEF = """observed, weights, observation_dims, compile_kwargs
    Observed variables to subsample, weights of their observations, dims of observations; as in
    PyMC's own step methods.
taylor_order, centre, covariance, coordinates
    Order, centre and metric of the control variates; reparametrisation of hierarchies.
blocks, proposal, temperature
    Group effects one at a time; proposal; K > 0, which divides the log-likelihood.
prepared, updates_per_draw
    Preparation to reuse, and updates between two draws.
full_pass_above, moves_without_rows, tune
    Batch size above which the full data decide; slice moves of hyperparameters; adaptation.
model, rng, initial_point, blocked
    As in PyMC's own step methods."""
#: End of a step class's docstring.
SEE_ALSO = """

See Also
--------
pymc_minibatch_mh.steps.settings.SharedSettings : These settings in full."""
EXAMPLE = """

Examples
--------
>>> with model:
...     trace = pm.sample(10_000, step={name}())"""


def _entries_of(record: type) -> list[str]:
    """Entries of the parameters in the docstring of a record."""
    *_, section = cleandoc(record.__doc__ or "").partition("Parameters\n----------\n")
    return re.split(r"\n(?=\S)", section) if section else []


def docstring_of(step: type, record: type[SharedSettings]) -> str:
    """Docstring of a step class, with the parameters of its settings records."""
    head, *sections = re.split(r"\n\n(?=\w+\n---)", cleandoc(step.__doc__ or ""))
    entries = [entry for cls in _records_of(record) for entry in _entries_of(cls)]
    common = _entries_of(SharedSettings)[: not any(entry.startswith("vars ") for entry in entries)]
    parameters = "\n".join(["Parameters\n----------", *common, *entries, IN_BRIEF])
    complete = all(p.default is not Parameter.empty for p in signature(step).parameters.values())
    example = EXAMPLE.format(name=step.__name__) if complete else ""
    return "\n\n".join([head, parameters, *sections]) + SEE_ALSO + example


def require_warm_up_for(schedule: Sequence[tuple[int, float]], tune: int) -> None:
    """Raise SettingError if warm-up ends before the last temperature of a schedule."""
    if schedule and tune < schedule[-1][0]:
        raise SettingError(
            f"temperature={list(schedule)!r} reaches its last temperature at draw "
            f"{schedule[-1][0]}, after a warm-up of tune={tune} draws has ended. Raise tune=, or "
            "shorten the schedule."
        )


def step_variables(model: pm.Model, vars: Sequence[Variable] | None) -> list[Variable]:
    """Value variables of a step: the selected ones, or all continuous ones."""
    if vars is None:
        vars = [v for v in model.value_vars if np.dtype(v.dtype).kind == "f"]
    variables = value_variables(model, vars)
    # Check variables before the model's initial point is compiled, which takes longer.
    require_continuous(model, variables)
    return variables


def user_numbers_check(kind: type[Any], numbers: str, call: str) -> Check:
    """Check of a setting with custom numbers for all observations; its arrays are copied."""

    def check(name: str, value: Any) -> Any:
        if isinstance(value, kind):
            arrays = {part.name: getattr(value, part.name) for part in fields(kind)}
            return replace(value, **{x: deepcopy(a) for x, a in arrays.items() if not callable(a)})
        if value is None or callable(value):
            return value
        raise SettingError(
            f"{name}={type(value).__name__} is not a set of {numbers}. Pass {call}, or a function "
            "that returns it for the centre that it is called with."
        )

    return check


check_bounds = user_numbers_check(Bounds, "bounds", "Bounds(c, metric)")
