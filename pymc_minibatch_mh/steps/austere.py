"""The austere sequential test."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.acceptance import austere
from pymc_minibatch_mh.proposals import Proposal
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.base import MinibatchStep


class AustereMH(MinibatchStep):
    """Metropolis–Hastings decided by a sequential t-test on growing batches.

    Guarantee: *approximate*. `epsilon` is the level of the t-test at one look; it is neither the
    error of the acceptance probability nor a bias of the posterior, and no such figure follows
    from it alone.

    Parameters
    ----------
    vars
        Variables to sample; by default, and so far necessarily, all of the model.
    batch_size
        Rows that each look adds.
    epsilon
        Tail probability below which a look decides, in (0, 0.5).
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
    Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
    budget", ICML, doi:10.48550/arXiv.1304.5299.
    """

    name = "austere_mh"
    plan = austere.plan
    decide = austere.decide
    walk_target = 0.234

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 500,
        epsilon: float = 0.05,
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
            austere.settings(
                check.positive("epsilon", epsilon),
                batch_size=check.integer("batch_size", batch_size, 2),
            ),
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
