"""PoissonMH, which needs the range of every log-likelihood."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.methods import poisson_levels
from pymc_minibatch_mh.preparation.needs import GivenRanges
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings


class PoissonMH(MinibatchStep):
    """Exact Metropolis–Hastings that draws rows by how large their log-likelihoods are.

    Guarantee: *exact given valid bounds*, here on the log-likelihood of every row itself, from
    below and from above, for every value of the parameters. They are derived from the model's
    graph, with outward rounding, where that is possible: where parameters have bounded priors, such
    as ``pm.Uniform``, or the likelihood is bounded by itself. Every row that is read is checked
    against its range. Every update reads λ + L rows on average, L the sum of the ranges' widths,
    and all rows where that is more than half of them, which is counted in the stat ``full_pass``.

    This is a published method, there to reproduce; :class:`TunaMH` knows the size of a move, and
    reads far fewer rows.

    Parameters
    ----------
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
    lam
        λ > 0: a larger one reads more rows and accepts more often. "auto" is L², as published,
        which keeps the variance of the log ratio at or below 1, lowered to where a quarter of the
        rows are read, but not below L.
    ranges
        Ranges of your own instead of derived ones: ``Ranges(low, high)``, or a function that
        returns them for the centre θ̂ (value variable's name -> array).
    on_violation
        "raise" ends sampling where a log-likelihood is out of its range; "warn" goes on and marks
        the trace.
    **settings
        What all step methods take: see :class:`SharedSettings`.

    Raises
    ------
    BoundsError
        If the log-likelihood of a row has no range, as with normal priors, or the model goes
        through an operation without a rule.
    BoundViolationError
        While sampling, if a log-likelihood is out of its range.

    References
    ----------
    Zhang, De Sa (2019), "Poisson-minibatching for Gibbs sampling with convergence rate guarantees",
    NeurIPS, doi:10.48550/arXiv.1911.09771.
    """

    name = "poisson_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        lam: float | str = "auto",
        ranges: "GivenRanges | None" = None,
        on_violation: str = "raise",
        **settings: Unpack[SharedSettings],
    ) -> None:
        order = check.taylor_order_of(settings.get("taylor_order", "auto"))
        if order and settings.get("taylor_order", "auto") != "auto":
            raise SettingError(
                f"taylor_order={order} leaves remainders, but PoissonMH draws rows by their "
                "log-likelihoods themselves. Leave it out, or use TunaMH()."
            )
        settings["taylor_order"] = 0
        method = poisson_levels.LevelsMethod(
            check.lam_of(lam), check.ranges_of(ranges), check.violation_rule(on_violation)
        )
        self._prepare(vars, method, **settings)
