"""Factorised (SMH, TFMH) and scalable-subsampling (MH-SS) Metropolis–Hastings."""

from collections.abc import Sequence
from typing import ClassVar, Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.checks import flag
from pymc_minibatch_mh.plan.plan import GivenBounds
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import SharedSettings
from pymc_minibatch_mh.steps.tuna import PoissonMethod


class _WithoutChi(MinibatchStep):
    """A Poisson test at χ = 0."""

    _form: ClassVar[str]

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        delayed_acceptance: bool = False,
        bounds: GivenBounds | None = None,
        on_violation: str = "raise",
        **settings: Unpack[SharedSettings],
    ) -> None:
        method = PoissonMethod(
            self._form,
            0.0,
            flag("delayed_acceptance", delayed_acceptance),
            check.bounds_of(bounds),
            check.violation_rule(on_violation),
        )
        self._prepare(vars, method, **settings)


class FactorizedMH(_WithoutChi):
    """Exact Metropolis–Hastings in which every observation has a veto.

    Guarantee: *exact given valid bounds*, as :class:`TunaMH`, which accepts more often. With
    control variates this is the scalable Metropolis–Hastings of the reference (SMH), with
    ``taylor_order=0`` the truncated factorised one (TFMH).

    Parameters
    ----------
    vars : list of variables, optional
        Variables to move; by default all continuous ones. Other steps move the rest.
    delayed_acceptance, bounds, on_violation
        As in :class:`TunaMH`.
    **settings
        Settings of all step methods: see :class:`SharedSettings`.

    Raises
    ------
    BoundsError
        If a row has no bound, or the model uses an operation without a rule.
    BoundViolationError
        While sampling, if a row exceeds its bound.

    References
    ----------
    Cornish, Vanetti, Bouchard-Côté, Deligiannidis, Doucet (2019), "Scalable Metropolis-Hastings
    for exact Bayesian inference with large datasets", ICML, doi:10.48550/arXiv.1901.09881.
    """

    name = "factorized_mh"
    _form = "factorized"


class ScalableSubsamplingMH(_WithoutChi):
    """Exact Metropolis–Hastings with the fewest observations that the bounds allow (MH-SS).

    Guarantee: *exact given valid bounds*, as :class:`TunaMH`, of which this is the case χ = 0: it
    reads the fewest rows, and accepts a little less often than with a larger χ.

    Parameters
    ----------
    vars : list of variables, optional
        Variables to move; by default all continuous ones. Other steps move the rest.
    delayed_acceptance, bounds, on_violation
        As in :class:`TunaMH`.
    **settings
        Settings of all step methods: see :class:`SharedSettings`.

    Raises
    ------
    BoundsError
        If a row has no bound, or the model uses an operation without a rule.
    BoundViolationError
        While sampling, if a row exceeds its bound.

    References
    ----------
    Prado, Nemeth, Sherlock (2024), "Metropolis-Hastings with scalable subsampling",
    doi:10.48550/arXiv.2407.19602.
    """

    name = "scalable_subsampling_mh"
    _form = "best"
