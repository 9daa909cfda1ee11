"""The austere test: a sequential t-test of the Metropolis decision on growing batches.

The uniform is drawn first. Metropolis accepts iff the exact log ratio exceeds log(uniform); each
look tests that by the paper's statistic on the mean difference, as native/austere.c has it. It
stops when the tail beyond |t| is below epsilon and reads `batch_size` more rows otherwise. With
another boundary than 0.5, early looks have a smaller tail, as in the paper's supplement.

A batch that misses rare rows stops early and wrongly. A batch of equal differences, up to
rounding, is undecided, unless all rows were equal in every move that was measured on all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

from pytensor.graph.basic import Variable
from scipy.special import ndtri

from pymc_minibatch_mh.checks import integer, is_number
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import UNMEASURED, BatchMethod
from pymc_minibatch_mh.steps.settings import SharedSettings


class AustereTest(NamedTuple):
    """Settings of the test in a chain, ``mh_austere_test``; :class:`BarkerTest` has the first."""

    LAYOUT, sample_size, decide_batch = (  # type: ignore[misc]
        "mh_austere_test",
        "mh_austere_sample_size",
        "mh_austere_decide",
    )

    batch_size: int
    skewness: float
    #: 0 if differences were equal in every move that was measured.
    third_moment: float
    kappa: float
    #: Tail probability below which a look decides; 0 for all rows at once.
    epsilon: float
    #: α and G_0 of the limits G_0 (n/N)^(0.5 - α) of the looks.
    boundary: float
    limit: float


def austere_test(
    epsilon: float = 0.05, *, batch_size: int = 100, boundary: float = 0.5
) -> AustereTest:
    """Check the settings of :class:`AustereMH`, and return the record of a chain."""
    if not is_number(epsilon) or not 0.0 <= epsilon <= 0.5:
        raise SettingError(
            f"epsilon={epsilon!r} is not a tail probability in [0, 0.5]. Use 0.05, a smaller "
            "value for less bias and larger batches, or 0 to evaluate all observations."
        )
    if not is_number(boundary) or not 0.5 <= boundary <= 1.0:
        raise SettingError(
            f"boundary={boundary!r} is not in [0.5, 1]. Use 0.5 for the same limit at every look, "
            "or more for wider limits at early looks."
        )
    return AustereTest(
        batch_size=integer("batch_size", batch_size, 2),
        **UNMEASURED,
        epsilon=float(epsilon),
        boundary=float(boundary),
        limit=abs(float(ndtri(epsilon))),
    )


@dataclass(frozen=True, eq=False)
class AustereMethod(BatchMethod):
    """The austere test, as a step runs it."""

    @property
    def guarantee(self) -> Guarantee:
        """Exact where all rows decide."""
        if self.reads_all_rows:
            return Guarantee(Promise.EXACT)
        return Guarantee(
            Promise.APPROXIMATE,
            "probability epsilon of a wrong answer at each look, not the bias of the posterior",
        )

    @property
    def reads_all_rows(self) -> bool:  # type: ignore[override]
        """At epsilon 0."""
        return bool(self.settings.epsilon == 0.0)

    @property
    def returns_probability(self) -> bool:  # type: ignore[override]
        """Where all rows decide. Else the uniform number has chosen the look that decided."""
        return self.reads_all_rows


class AustereMH(MinibatchStep):
    """Metropolis–Hastings decided by a sequential t-test on growing batches.

    Guarantee: *approximate*. `epsilon` controls the error of a t-test at one look, not the error of
    the acceptance probability or of the posterior: see the page "Approximate methods". With
    ``epsilon=0`` the full data decide, as in Metropolis–Hastings, which is *exact*.

    Parameters
    ----------
    vars : list of variables, optional
        Variables to update; by default all continuous ones. Other steps update the rest.
    batch_size : int
        Observations that each look adds.
    epsilon : float in [0, 0.5]
        Tail probability below which a look decides. At 0 the full data decide, at 0.5 the first
        look.
    boundary : float in [0.5, 1]
        α in the limits G_0 π^(0.5 - α) of the looks' statistics, with π the share of evaluated
        observations and G_0 the normal quantile of 1 - `epsilon`. At 0.5 all looks have the level
        `epsilon`; above, early looks have a smaller one.
    **settings
        Settings of all step methods: see :class:`SharedSettings`.

    Raises
    ------
    SettingError
        If a setting is invalid, or if more than one in 10,000 updates is forecast to evaluate all
        stored observations.

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
        boundary: float = 0.5,
        **settings: Unpack[SharedSettings],
    ) -> None:
        test = austere_test(epsilon, batch_size=batch_size, boundary=boundary)
        self._prepare(vars, AustereMethod(test), **settings)
