"""Confidence sampler after a scan of all observations, as in the comparison of Seita et al. (2017).

Before its first batch an update evaluates all observations, and takes s and R = 2 max |l_i| of
:mod:`steps.confidence` from them: no l_i lies outside R, and no bounds are needed.
"""

from dataclasses import dataclass

from pymc_minibatch_mh.plan.plan import Requirements
from pymc_minibatch_mh.steps.confidence import ConfidenceMethod, ConfidenceMH, ConfidenceSettings
from pymc_minibatch_mh.steps.settings import takes_settings


@dataclass(frozen=True, eq=False)
class ScanMethod(ConfidenceMethod):
    """Method of :class:`ConfidenceScanMH`."""

    reads_all_rows = True
    condition = "by a scan of all rows at every update"

    @property
    def requirements(self) -> Requirements:
        """Data in memory; no bounds."""
        return Requirements(in_memory=True)


class ConfidenceScanMH(ConfidenceMH):
    """Confidence sampler with the range of all observations at every update, as published.

    Guarantee: *approximate*, like :class:`ConfidenceMH`, without bounds. The statistics ``n_obs``
    and ``full_pass`` count the scans.

    References
    ----------
    Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for
    Metropolis-Hastings", UAI, doi:10.48550/arXiv.1610.06848.
    """

    name = "confidence_scan_mh"

    @takes_settings(ConfidenceSettings)
    def __init__(self, settings: ConfidenceSettings) -> None:
        self._prepare(settings, ScanMethod(settings.test._replace(scans=1)))
