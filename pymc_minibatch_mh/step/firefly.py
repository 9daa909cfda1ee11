"""Firefly Monte Carlo."""

from collections.abc import Sequence
from typing import Unpack

import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.methods import firefly
from pymc_minibatch_mh.model.reading.inputs import model_of
from pymc_minibatch_mh.preparation.needs import GivenBounds
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings


class FireflyMH(MinibatchStep):
    """Exact Metropolis–Hastings that reads the rows which are bright (Firefly Monte Carlo).

    Guarantee: *exact given valid bounds*. Every row has a lower bound of its likelihood, and is
    bright or dark; a move reads bright rows only. Which rows are bright is part of the chain's
    state, so that draws are correlated through it as well. The lower bounds are made of the
    expansion around the mode and of the bounds that :class:`TunaMH` uses: they are tight at the
    mode, as in the published FlyMC-MAP. Every row that is read is checked against its own. Moves
    that begin or end outside the region in which bounds hold are decided by all rows, which is
    exact and counted in the stat ``full_pass``, as are the updates that draw anew which rows are
    bright: the first one of a chain, and the one after such a move.

    An update reads the bright rows twice, and a share `q` of the dark ones. The stat ``n_bright``
    has the number of bright rows.

    Parameters
    ----------
    vars
        Variables to move: all of the model, as brightness belongs to the values of all of them.
    q
        Probability in (0, 1] with which an update proposes a dark row to become bright: more rows
        read, and brightness that is forgotten sooner. A good one is about the share of the rows
        that are bright.
    bound
        "map": lower bounds that are made of the expansion and of derived bounds. "untuned": the
        published ones, quadratic in the parameters, for logistic regressions (Jaakkola and Jordan,
        touching at ξ = 1.5) and for Student-t errors of a known scale (touching at errors of 1.5
        scales). They know nothing of the posterior: about as many rows are bright at every N.
    bounds, on_violation
        As in :class:`TunaMH`, for ``bound="map"``.
    **settings
        What all step methods take: see :class:`SharedSettings`.

    Raises
    ------
    BoundsError
        If a row has no bound, or the model goes through an operation without a rule.
    BoundViolationError
        While sampling, if a row exceeds its bound.

    References
    ----------
    Maclaurin, Adams (2014), "Firefly Monte Carlo: exact MCMC with subsets of data", UAI,
    doi:10.48550/arXiv.1403.5693.
    """

    name = "firefly_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        q: float = 0.1,
        bound: str = "map",
        bounds: "GivenBounds | None" = None,
        on_violation: str = "raise",
        **settings: Unpack[SharedSettings],
    ) -> None:
        if bound not in ("map", "untuned"):
            raise SettingError(f"bound={bound!r} is unknown. Use 'map' or 'untuned'.")
        untuned = bound == "untuned"
        if untuned and (bounds is not None or on_violation != "raise"):
            raise SettingError(
                "bound='untuned' takes neither bounds= nor on_violation=, as its lower bounds are "
                "known to hold. Leave them out, or use bound='map'."
            )
        method = firefly.FireflyMethod(
            firefly.require_probability(check.positive("q", q)),
            firefly.UNTUNED if untuned else None,
            check.bounds_of(bounds),
            check.violation_rule(on_violation),
        )
        check.together(settings.get("blocked", True))
        _require_alone(model_of(settings.get("model")), vars)
        self._prepare(vars, method, **settings)


def _require_alone(model: "pm.Model", vars: Sequence[Variable] | None) -> None:
    """Refuse to leave variables to other steps, which brightness would not follow."""
    moved = check.own_variables(model, vars)
    left = [value.name for value in model.value_vars if value not in moved]
    if left:
        raise SettingError(
            f"vars= leaves {left[0]!r} to another step, but which rows are bright belongs to the "
            "values of all variables. Use TunaMH(), which moves variables beside other steps."
        )
