"""Metropolis–Hastings with scalable subsampling (MH-SS)."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.methods.poisson import PoissonMethod
from pymc_minibatch_mh.preparation.needs import GivenBounds
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings


class ScalableSubsamplingMH(MinibatchStep):
    """Exact Metropolis–Hastings with the fewest rows that the bounds allow (MH-SS).

    Guarantee: *exact given valid bounds*, as :class:`TunaMH`, of which this is the case χ = 0. It
    reads C M rows in expectation, and accepts a little less often than a larger χ.

    Parameters
    ----------
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
    delayed_acceptance, bounds, on_violation
        As in :class:`TunaMH`.
    **settings
        What all step methods take: see :class:`SharedSettings`.

    References
    ----------
    Prado, Nemeth, Sherlock (2024), "Metropolis-Hastings with scalable subsampling",
    doi:10.48550/arXiv.2407.19602.
    """

    name = "scalable_subsampling_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        delayed_acceptance: bool = False,
        bounds: "GivenBounds | None" = None,
        on_violation: str = "raise",
        **settings: Unpack[SharedSettings],
    ) -> None:
        method = PoissonMethod(
            "best",
            0.0,
            check.flag("delayed_acceptance", delayed_acceptance),
            check.bounds_of(bounds),
            check.violation_rule(on_violation),
        )
        self._prepare(vars, method, **settings)
