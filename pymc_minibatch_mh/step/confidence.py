"""The confidence sampler."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.methods import confidence
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings


class ConfidenceMH(MinibatchStep):
    """Metropolis–Hastings decided by concentration bounds on growing batches.

    Guarantee: *approximate*. An update decides otherwise than Metropolis on all rows would with
    probability `delta` at most, at every pair of positions; with ``range="bounds"`` this holds
    given valid bounds. No bias of the posterior follows from it alone. The stat
    ``error_estimate`` is what the looks of an update have spent of `delta`.

    Parameters
    ----------
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
    batch_size
        Rows of the first look.
    gamma
        Factor above 1 by which batches grow from look to look.
    p
        Power above 1 by which the levels of the looks fall: δ_k = (p - 1) δ/(p k^p), k = 2, 3, ...
    delta
        δ in (0, 1).
    range
        Where the range of the rows' differences comes from. "bounds": from the bounds that are
        derived for every row; a move outside of the region in which they hold reads all rows.
        "scan": from all rows, at every update, and their standard deviation as well, as in the
        comparison of Seita et al. (2017). An update then reads all rows before its first batch,
        and they are counted in ``n_obs`` and ``full_pass``; what a comparison would count is
        ``batch_size`` · ``gamma`` ** (``n_looks`` - 1), or all rows where ``log_ratio_std`` is 0.
    **settings
        What all step methods take: see :class:`SharedSettings`.

    Raises
    ------
    BoundsError
        If a row has no bound, with ``range="bounds"``.
    BoundViolationError
        While sampling, if a row exceeds its bound.

    References
    ----------
    Bardenet, Doucet, Holmes (2014), "Towards scaling up Markov chain Monte Carlo: an adaptive
    subsampling approach", ICML.
    Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for
    Metropolis-Hastings", UAI, doi:10.48550/arXiv.1610.06848.
    """

    name = "confidence_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 100,
        gamma: float = 2.0,
        p: float = 2.0,
        delta: float = 0.01,
        range: str = "bounds",  # noqa: A002 - the field's word for it
        **settings: Unpack[SharedSettings],
    ) -> None:
        if range not in ("bounds", "scan"):
            raise SettingError(f"range={range!r} is unknown. Use 'bounds' or 'scan'.")
        test_settings = confidence.settings(
            check.integer("batch_size", batch_size, 2),
            check.positive("gamma", gamma),
            check.positive("p", p),
            check.positive("delta", delta),
            scans=range == "scan",
        )
        self._prepare(vars, confidence.ConfidenceMethod(test_settings), **settings)
