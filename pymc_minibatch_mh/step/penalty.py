"""The penalty method on minibatches."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.methods import penalty
from pymc_minibatch_mh.methods.penalty import PenaltyMethod
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings

#: Rows of the smallest batch, where nothing else is asked for.
USUAL_BATCH = 100


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
    Ceperley, Dewing (1999), "The penalty method for random walks with uncertain energies",
    Journal of Chemical Physics 110, doi:10.1063/1.478034.
    """

    name = "penalty_minibatch_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = USUAL_BATCH,
        **settings: Unpack[SharedSettings],
    ) -> None:
        size = check.integer("batch_size", batch_size, 2)
        self._prepare(vars, penalty_method(size), **settings)


def penalty_method(batch_size: int = USUAL_BATCH) -> "PenaltyMethod":
    """Return the test of :class:`PenaltyMH`."""
    return penalty.PenaltyMethod(penalty.settings(batch_size=batch_size))
