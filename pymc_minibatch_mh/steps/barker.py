"""Barker's test on minibatches."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.acceptance import barker
from pymc_minibatch_mh.proposals import Proposal
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.base import MinibatchStep


class BarkerMinibatchMH(MinibatchStep):
    """Metropolis–Hastings with Barker's test, decided by a batch of rows.

    Guarantee: *approximate*. The error of the acceptance probability is estimated for every
    update (stat ``error_estimate``), and `max_error` makes batches large enough to keep the
    predicted error below a limit.

    Parameters
    ----------
    vars
        Variables to sample; by default, and so far necessarily, all of the model.
    batch_size
        Rows of the smallest batch.
    sigma
        Standard deviation that the noise of a batch is topped up to, in (0.5, 1.7]. Rows go like
        1/sigma²; the certified error of the correction is 1.6e-5 at 1.2 and 5.4e-8 at 1.
    batch_rule
        "predict" sizes a batch from the move alone, before a row is read. "grow" is the
        published rule, which reads on until the batch's own noise is below sigma; its stopping
        biases the decision, and it is there to reproduce published results.
    max_error
        Largest predicted error of the acceptance probability; None for no such condition.
    error_bound
        "edgeworth", an estimate of the leading error terms, or "novak", the published bound.
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
    Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for
    Metropolis-Hastings", UAI, doi:10.48550/arXiv.1610.06848.
    """

    name = "barker_minibatch_mh"
    plan = barker.plan
    decide = barker.decide
    walk_target = 0.159

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 100,
        sigma: float = 1.2,
        batch_rule: str = "predict",
        max_error: float | None = None,
        error_bound: str = "edgeworth",
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
            barker.settings(
                check.positive("sigma", sigma),
                batch_size=check.integer("batch_size", batch_size, 2),
                batch_rule=batch_rule,
                error_bound=error_bound,
                max_error=math.inf if max_error is None else check.positive("max_error", max_error),
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
