"""Barker's test on growing batches, as published by Seita et al. (2017).

The batch grows by `batch_size` observations until its noise s is below sigma and the estimated
error is below `max_error`. The stopping time depends on the batch, which biases decisions:
:mod:`steps.barker` chooses the size before it draws.
"""

from dataclasses import dataclass
from functools import partial

from pymc_minibatch_mh.checks import check_choice
from pymc_minibatch_mh.steps.barker import (
    BarkerMethod,
    BarkerMinibatchMH,
    BarkerTest,
    BarkerTestSettings,
)
from pymc_minibatch_mh.steps.settings import setting_field, takes_settings


def growing(test: BarkerTest, error_bound: str = "edgeworth") -> BarkerTest:
    """Kernel settings of Barker's test `test`, changed to growing batches."""
    return test._replace(grow=1, novak=int(error_bound == "novak"))


@dataclass(frozen=True, kw_only=True)
class BarkerPaperSettings(BarkerTestSettings):
    """Settings of :class:`BarkerPaperMH`.

    Parameters
    ----------
    error_bound : {"edgeworth", "novak"}
        Estimate of the leading error terms, or the published bound.
    """

    error_bound: str = setting_field(
        partial(check_choice, known=("edgeworth", "novak")), default="edgeworth"
    )

    @property
    def test(self) -> BarkerTest:
        """Initial kernel settings."""
        return growing(super().test, self.error_bound)


class BarkerPaperMH(BarkerMinibatchMH):
    """Barker's test on growing batches, as published.

    Guarantee: *approximate*, like :class:`BarkerMinibatchMH`, with a bias because batches grow
    until their noise is below sigma.

    References
    ----------
    Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for
    Metropolis-Hastings", UAI, doi:10.48550/arXiv.1610.06848.
    """

    name = "barker_paper_mh"

    @takes_settings(BarkerPaperSettings)
    def __init__(self, settings: BarkerPaperSettings) -> None:
        self._prepare(settings, BarkerMethod(settings.test))
