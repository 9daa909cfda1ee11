"""The austere sequential test."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh import step as own
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep


class AustereMH(MinibatchStep):
    """Metropolis–Hastings decided by a sequential t-test on growing batches.

    Guarantee: *approximate*. `epsilon` is the level of the t-test at one look; it is neither the
    error of the acceptance probability nor a bias of the posterior, and no such figure follows
    from it alone.

    Parameters
    ----------
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
    batch_size
        Rows that each look adds.
    epsilon
        Tail probability below which a look decides, in (0, 0.5).
    **settings
        What all step methods take: see :class:`SharedSettings`.

    References
    ----------
    Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
    budget", ICML, doi:10.48550/arXiv.1304.5299.
    """

    name = "austere_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 500,
        epsilon: float = 0.05,
        **settings: Unpack[check.SharedSettings],
    ) -> None:
        austere = own.machinery.austere
        test_settings = austere.settings(
            check.positive("epsilon", epsilon),
            batch_size=check.integer("batch_size", batch_size, 2),
        )
        method = austere.AustereMethod(test_settings)
        self._prepare(vars, method, **settings)
