"""Langevin proposals with a gradient estimated from a batch of observations.

With a batch, :class:`Langevin` is the proposal of stochastic gradient Langevin dynamics: Welling,
Teh (2011), "Bayesian learning via stochastic gradient Langevin dynamics", ICML. Its density is
known given the batch, which is drawn before the position is used and shared by both directions. So
each batch has its own reversible kernel, independent of the observations of the test.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from pymc_minibatch_mh.checks import check_choice, check_flag, check_positive, check_row_count
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.proposals.base import Proposal, Tallies
from pymc_minibatch_mh.proposals.walk import SHAPES, tune_scale

#: Acceptance rate of the most efficient Langevin proposals with exact gradients in many dimensions:
#: Roberts, Rosenthal (1998), doi:10.1111/1467-9868.00123.
BEST_ACCEPTANCE = 0.574


class LangevinStep(NamedTuple):
    """Step size h, preconditioner (LAPLACE or IDENTITY) and batch size: ``mh_langevin``."""

    LAYOUT, propose = "mh_langevin", "mh_propose_langevin"  # type: ignore[misc]

    step: float
    preconditioner: int
    batch_size: int


@dataclass(frozen=True)
class Langevin(Proposal):
    """Langevin proposals θ' = θ + (h²/2) P g(θ) + h P^½ ξ with a gradient g of the log-density.

    Guarantee: the step's. The prior's gradient is computed by differences. The likelihood's
    gradient comes from the control variates, or is estimated from a batch that is drawn before the
    position is known and serves both directions.

    Parameters
    ----------
    step_size
        h before warm-up; by default 1.65/d^(1/6). In posterior standard deviations with
        ``preconditioner="laplace"``, and in units of the unconstrained coordinates with
        "identity". Stochastic gradient Langevin dynamics writes α for h².
    batch_size
        Size of the batch, which every update evaluates twice (counted in ``n_obs``). 0 takes the
        gradient of the control variates of order 2, which evaluates no observation.
    preconditioner
        "laplace" for P = L Lᵀ, about the posterior covariance; "identity" for P = I, which needs a
        `step_size`.
    adapt
        Whether warm-up adapts h to an acceptance of 0.574.

    Raises
    ------
    SettingError
        If a setting is invalid; when the step is built, if `batch_size` is 0 and the order is below
        2.

    References
    ----------
    Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
    budget", section 6.4, ICML, doi:10.48550/arXiv.1304.5299.

    Examples
    --------
    >>> Langevin(batch_size=100).n_components
    1
    """

    step_size: float | None = None
    batch_size: int = 500
    preconditioner: str = "laplace"
    adapt: bool = True

    def __post_init__(self) -> None:
        if self.step_size is not None:
            check_positive("step_size", self.step_size, "Give one, or None.")
        check_row_count("batch_size", self.batch_size)
        check_choice("preconditioner", self.preconditioner, tuple(SHAPES))
        if self.preconditioner == "identity" and self.step_size is None:
            raise SettingError(
                "step_size=None has no default with preconditioner='identity', because that has "
                "no scale. Give a number, or use 'laplace'."
            )
        check_flag("adapt", self.adapt)

    @property
    def draws_rows(self) -> bool:
        """Whether the gradient uses a batch."""
        return self.batch_size > 0

    def rows_read(self, n_rows: int) -> int:
        """Twice the batch size, for both positions; full data replace a batch of half or more."""
        return 2 * (n_rows if 2 * self.batch_size >= n_rows else self.batch_size)

    def record(self, size: int) -> LangevinStep:
        """Initial step size of a chain."""
        step = 1.65 / size ** (1.0 / 6.0) if self.step_size is None else self.step_size
        return LangevinStep(float(step), SHAPES[self.preconditioner], self.batch_size)

    def adapted(
        self, record: LangevinStep, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> LangevinStep:
        """Adapt the step size to the most efficient acceptance rate."""
        if not self.adapt:
            return record
        return record._replace(step=tune_scale(record.step, window[0], total[0], BEST_ACCEPTANCE))

    def linked(self, record: LangevinStep, plan: Any) -> LangevinStep:
        """Record for compiled updates; SettingError without a gradient of the likelihood."""
        if not self.batch_size and plan.reference.order < 2:
            raise SettingError(
                f"batch_size=0 leaves Langevin() without a gradient of the likelihood at "
                f"taylor_order={plan.reference.order}. Give a batch_size such as 500, or use "
                "taylor_order=2."
            )
        return record

    def scaling(self, record: LangevinStep) -> float:
        """Step size h."""
        return record.step
