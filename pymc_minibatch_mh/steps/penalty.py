"""The penalty method on minibatches."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.acceptance import penalty
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.decision import LookDecision


class PenaltyMH(MinibatchStep):
    """Metropolis–Hastings whose ratio is lowered by the noise of a batch.

    Guarantee: *approximate*. The error of the acceptance probability that is controlled is that
    of a noise which is not quite normal and whose variance is estimated.

    Parameters
    ----------
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
    batch_size
        Rows of the smallest batch.
    **settings
        What all step methods take: see :class:`MinibatchStep`.

    References
    ----------
    Ceperley, Dewing (1999), "The penalty method for random walks with uncertain energies",
    Journal of Chemical Physics 110, doi:10.1063/1.478034.
    """

    name = "penalty_minibatch_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 100,
        **settings: Unpack[check.SharedSettings],
    ) -> None:
        self._prepare(
            vars,
            LookDecision(
                penalty.plan,
                penalty.decide,
                penalty.settings(batch_size=check.integer("batch_size", batch_size, 2)),
                walk_target=0.234,
            ),
            **settings,
        )
