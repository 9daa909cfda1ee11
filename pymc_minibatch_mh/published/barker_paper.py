"""Barker's test on growing batches, as published by Seita et al. (2017).

The batch grows by `batch_size` observations until its noise s is below sigma and the estimated
error is below `max_error`. The stopping time depends on the batch, which biases decisions:
:mod:`steps.barker` chooses the size before it draws.
"""

from dataclasses import dataclass
from functools import partial

from pymc_minibatch_mh.checks import check_choice, check_integer, check_positive
from pymc_minibatch_mh.steps.barker import BarkerMethod, BarkerMinibatchMH, BarkerTest, barker_test
from pymc_minibatch_mh.steps.settings import SharedSettings, setting_field, takes_settings


def growing_test(
    sigma: float = 1.2,
    *,
    batch_size: int = 100,
    max_error: float | None = None,
    error_bound: str = "edgeworth",
) -> BarkerTest:
    """Initial kernel settings of the test on growing batches."""
    test = barker_test(sigma, batch_size=batch_size, max_error=max_error)
    return test._replace(grow=1, novak=int(error_bound == "novak"))


@dataclass(frozen=True, kw_only=True)
class BarkerPaperSettings(SharedSettings):
    """Settings of :class:`BarkerPaperMH`.

    Parameters
    ----------
    batch_size : int
        Size of the first batch, and of every further one.
    sigma : float in (0.5, 1.7]
        Standard deviation of the log ratio after noise is added; 1 as published.
    max_error : float, optional
        Largest estimated error of the acceptance probability.
    error_bound : {"edgeworth", "novak"}
        Estimate of the leading error terms, or the published bound.
    """

    batch_size: int = setting_field(partial(check_integer, least=2), default=100)
    sigma: float = setting_field(check_positive, default=1.2)
    max_error: float | None = setting_field(default=None)
    error_bound: str = setting_field(
        partial(check_choice, known=("edgeworth", "novak")), default="edgeworth"
    )


class BarkerPaperMH(BarkerMinibatchMH):
    """Barker's test on growing batches, as published.

    Guarantee: *approximate*, like :class:`BarkerMinibatchMH`, with a bias by batches that grow
    until their noise is below sigma.

    Raises
    ------
    SettingError
        If a setting is invalid, or if more than one in 10,000 updates is forecast to evaluate all
        stored observations.

    References
    ----------
    Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for
    Metropolis-Hastings", UAI, doi:10.48550/arXiv.1610.06848.
    """

    name = "barker_paper_mh"

    @takes_settings(BarkerPaperSettings)
    def __init__(self, settings: BarkerPaperSettings) -> None:
        test = growing_test(
            settings.sigma,
            batch_size=settings.batch_size,
            max_error=settings.max_error,
            error_bound=settings.error_bound,
        )
        self._prepare(settings, BarkerMethod(test))
