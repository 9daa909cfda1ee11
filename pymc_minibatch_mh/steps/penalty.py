"""The penalty method on minibatches."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.acceptance import penalty
from pymc_minibatch_mh.proposals import Proposal
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.base import MinibatchStep


class PenaltyMH(MinibatchStep):
    """Metropolis–Hastings whose ratio is lowered by the noise of a batch.

    Guarantee: *approximate*. The error of the acceptance probability that is controlled is that
    of a noise which is not quite normal and whose variance is estimated.

    Parameters
    ----------
    vars
        Variables to sample; by default, and so far necessarily, all of the model.
    batch_size
        Rows of the smallest batch.
    taylor_order
        Order of the control variates: "auto", 0, 1 or 2.
    proposal
        "auto", or a proposal of :mod:`pymc_minibatch_mh`.
    temperature
        K > 0 raises the likelihood, and only it, to the power 1/K; above 1 it is flattened. The
        trace is then one of the tempered posterior, and says so in the stat ``temperature``.
    observed
        Names of the observed variables to subsample; by default all with 1,000 rows or more.
    updates_per_draw
        Updates between two draws that are kept.
    tune
        Whether to adapt the proposal in warm-up.
    model, rng, initial_point, compile_kwargs, blocked
        As in PyMC's own step methods. `initial_point` is where the search for the mode starts.

    Raises
    ------
    UnsplittableModelError
        If the rows of a likelihood cannot be proven to be independent.
    ModeError
        If the posterior has no mode with a Gaussian scale.
    SettingError
        If a setting cannot be meant.

    References
    ----------
    Ceperley, Dewing (1999), "The penalty method for random walks with uncertain energies",
    Journal of Chemical Physics 110, doi:10.1063/1.478034.
    """

    name = "penalty_minibatch_mh"
    plan = penalty.plan
    decide = penalty.decide
    walk_target = 0.234

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 100,
        taylor_order: int | str = "auto",
        proposal: Proposal | str = "auto",
        temperature: float = 1.0,
        observed: Sequence[str] | None = None,
        updates_per_draw: int = 1,
        tune: bool = True,
        model: pm.Model | None = None,
        rng: Any = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
        blocked: bool = True,
    ) -> None:
        self._prepare(
            vars,
            penalty.settings(batch_size=check.integer("batch_size", batch_size, 2)),
            taylor_order=taylor_order,
            proposal=proposal,
            temperature=temperature,
            observed=observed,
            updates_per_draw=updates_per_draw,
            tune=tune,
            model=model,
            rng=rng,
            initial_point=initial_point,
            compile_kwargs=compile_kwargs,
            blocked=blocked,
        )
