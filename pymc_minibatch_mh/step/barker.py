"""Barker's test on minibatches."""

import math
from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.methods import barker
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings


class BarkerMinibatchMH(MinibatchStep):
    """Metropolis–Hastings with Barker's test, decided by a batch of rows.

    Guarantee: *approximate*. The error of the acceptance probability is estimated for every
    update (stat ``error_estimate``), and `max_error` makes batches large enough to keep the
    predicted error below a limit.

    Parameters
    ----------
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
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
    skew_correction
        Whether to correct the acceptance probability for the skewness that a batch shows, in
        batches sized by "predict". It lowers the error for skewed rows, which ``error_estimate``
        goes on to state as it is without.
    **settings
        What all step methods take: see :class:`SharedSettings`.

    Raises
    ------
    SettingError
        If a setting is invalid; or if the model's rows are stored and more than one of 10,000
        updates is forecast to read all of them.

    Notes
    -----
    Batches of stored rows, of :class:`Rows`, are drawn and fetched ahead, in an order that does
    not depend on where the chain is.

    References
    ----------
    Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for
    Metropolis-Hastings", UAI, doi:10.48550/arXiv.1610.06848.
    """

    name = "barker_minibatch_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 100,
        sigma: float = 1.2,
        batch_rule: str = "predict",
        max_error: float | None = None,
        error_bound: str = "edgeworth",
        skew_correction: bool = False,
        **settings: Unpack[SharedSettings],
    ) -> None:
        test_settings = barker.settings(
            check.positive("sigma", sigma),
            batch_size=check.integer("batch_size", batch_size, 2),
            batch_rule=batch_rule,
            error_bound=error_bound,
            skew_correction=check.flag("skew_correction", skew_correction),
            max_error=math.inf if max_error is None else check.positive("max_error", max_error),
        )
        method = barker.BarkerMethod(test_settings)
        self._prepare(vars, method, **settings)
