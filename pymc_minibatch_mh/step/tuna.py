"""TunaMH, the exact method by default."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.methods.poisson import PoissonMethod
from pymc_minibatch_mh.preparation.needs import GivenBounds
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings


class TunaMH(MinibatchStep):
    """Exact Metropolis–Hastings that reads a Poisson number of rows.

    Guarantee: *exact given valid bounds*. The bounds of all rows are derived from the model's
    graph, with outward rounding, and every row that is read is checked against its own; bounds of
    your own are checked as well, but nobody has derived them. Moves outside the region in which
    the bounds hold, and moves that would read more rows than `full_pass_above`, are decided by all
    rows, which is exact and counted in the stat ``full_pass``.

    Parameters
    ----------
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
    chi
        χ >= 0: a larger one reads more rows and accepts more often. "auto" chooses it in warm-up
        for most draws per second.
    form
        "best", with the largest intensities that the bounds allow, or "paper", as published.
        Both read as many rows; "best" accepts at least as often.
    spectral_gap_ratio
        κ in (0, 1): sets χ so that the spectral gap is at least κ times that of a test on all
        rows, by the published guarantee, which is very loose. Instead of `chi`.
    delayed_acceptance
        Whether the cheap part of the ratio decides first, before a row is read.
    bounds
        Bounds of your own instead of derived ones: ``Bounds(c, metric)``, or a function that
        returns them for the centre of the expansion (value variable's name -> array).
    on_violation
        "raise" ends sampling where a row exceeds its bound; "warn" goes on and marks the trace.
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
    Zhang, Cooper, De Sa (2020), "Asymptotically optimal exact minibatch Metropolis-Hastings",
    NeurIPS, doi:10.48550/arXiv.2006.11677.
    """

    name = "tuna_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        chi: float | str = "auto",
        form: str = "best",
        spectral_gap_ratio: float | None = None,
        delayed_acceptance: bool = False,
        bounds: "GivenBounds | None" = None,
        on_violation: str = "raise",
        **settings: Unpack[SharedSettings],
    ) -> None:
        if form not in ("best", "paper"):
            raise SettingError(f"form={form!r} is unknown. Use 'best' or 'paper'.")
        method = PoissonMethod(
            form,
            check.chi_of(chi, spectral_gap_ratio),
            check.flag("delayed_acceptance", delayed_acceptance),
            check.bounds_of(bounds),
            check.violation_rule(on_violation),
        )
        self._prepare(vars, method, **settings)
