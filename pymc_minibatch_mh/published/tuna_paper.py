"""TunaMH with the intensities of Zhang et al. (2020): form *paper* of :mod:`steps.tuna`."""

from pymc_minibatch_mh.steps.settings import takes_settings
from pymc_minibatch_mh.steps.tuna import TunaMH, TunaSettings


class TunaPaperMH(TunaMH):
    """TunaMH as published: Poisson intensities that accept less often than those of TunaMH.

    Guarantee: *exact given valid bounds*, like :class:`TunaMH`.

    References
    ----------
    Zhang, Cooper, De Sa (2020), "Asymptotically optimal exact minibatch Metropolis-Hastings",
    NeurIPS, doi:10.48550/arXiv.2006.11677.
    """

    name = "tuna_paper_mh"

    @takes_settings(TunaSettings)
    def __init__(self, settings: TunaSettings) -> None:
        self._prepare(settings, settings.method("paper", settings.used_chi))
