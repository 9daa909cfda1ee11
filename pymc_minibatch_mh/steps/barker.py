"""Barker's test on a minibatch: approximate, with an error estimate for each decision.

Accept iff D* + X_nc + X_corr > 0, where D* is the log ratio estimated from b observations, X_nc is
N(0, sigma^2 - s^2), s^2 is the estimated variance of D*, and X_corr follows the tabulated
distribution C_sigma. The two auxiliary variables are integrated out, so one uniform decides:

    p = sum_j m_j Phi((D* + c_j) / sqrt(sigma^2 - s^2)),    accept iff uniform < p.

For a normal D* with variance s^2, the acceptance probability is that of Barker (1965),
doi:10.1071/PH650119, up to the proved error of C_sigma; the error estimate measures the deviation
from this case. With the full data the test is exact.

C_sigma replaces the logistic X of exact differences D: N(0, sigma^2) + C_sigma ~ standard logistic.
No exact C_sigma exists for any sigma > 0. The tabulated distribution is discrete and symmetric. It
minimises the largest distance between the two distribution functions, which bounds the error of an
acceptance probability. The linear programme replaces the ridge regression of Seita et al. (2017),
doi:10.48550/arXiv.1610.06848, whose error is larger and whose density has negative parts.
"""

import math
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from pymc_minibatch_mh.checks import check_flag, check_integer, check_positive
from pymc_minibatch_mh.errors import MinibatchError, SettingError
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import UNMEASURED, BatchMethod
from pymc_minibatch_mh.steps.settings import SharedSettings, setting_field, takes_settings

Floats = NDArray[np.float64]

SHIPPED_SIGMAS = (0.9, 1.0, 1.1, 1.2, 1.3)
MIN_SIGMA, MAX_SIGMA = 0.5, 1.7
SUPPORT = 24.0
_SPACING = 0.1
_MIN_MASS = 1e-12
_TABLE = Path(__file__).with_name("correction.npz")


@dataclass(frozen=True, eq=False)
class CorrectionTable:
    """Discrete distribution C_sigma with N(0, sigma^2) + C_sigma close to the standard logistic."""

    sigma: float
    #: Support, ascending and symmetric about 0, shape (K,), and non-negative probabilities.
    atoms: Floats
    masses: Floats
    #: Bound on sup |F(x) - 1/(1 + exp(-x))| over all real x, with F the distribution function of
    #: the sum.
    error: float

    def __post_init__(self) -> None:
        # Tables are cached and shared by all chains of a process, so they are read-only.
        self.atoms.setflags(write=False)
        self.masses.setflags(write=False)


def correction_table(sigma: float) -> CorrectionTable:
    """Correction distribution C_sigma for noise of standard deviation `sigma`, in (0.5, 1.7].

    Tables for 0.9, 1.0, 1.1, 1.2 and 1.3 are shipped; others take about half a second once per
    process. The proved error is 5.4e-8 at sigma=1, 1.7e-5 at 1.2 and 1.1e-4 at 1.3. SettingError if
    `sigma` is outside the interval.
    """
    sigma = float(sigma)
    if not MIN_SIGMA < sigma <= MAX_SIGMA:
        raise SettingError(
            f"sigma={sigma} is outside ({MIN_SIGMA}, {MAX_SIGMA}]: below, a test "
            "evaluates many observations for no gain in accuracy; above, a logistic variable has "
            "almost no variance left for the correction. Use 1.2, or 1.0 for an error below 6e-8."
        )
    shipped = _shipped_tables()
    return shipped[sigma] if sigma in shipped else minimax_correction(sigma)


@cache
def minimax_correction(sigma: float) -> CorrectionTable:
    """Solution of the minimax problem for C_sigma, with a proved error bound.

    MinibatchError if HiGHS does not solve the linear programme.
    """
    half_atoms, half_masses = _solve_half(sigma)
    has_mass = half_masses > _MIN_MASS
    half_atoms, half_masses = half_atoms[has_mass], half_masses[has_mass]
    positive = half_atoms > 0.0
    atoms = np.concatenate([-half_atoms[positive][::-1], half_atoms])
    masses = np.concatenate([half_masses[positive][::-1], half_masses])
    masses /= masses.sum()
    return CorrectionTable(sigma, atoms, masses, certified_error(sigma, atoms, masses))


def _solve_half(sigma: float) -> tuple[Floats, Floats]:
    """Atoms at and above 0, with the masses that minimise the largest error of C_sigma."""
    # SciPy's optimizer imports slowly, and the shipped tables do not need it.
    from scipy.optimize import linprog  # noqa: PLC0415

    atoms = np.arange(0.0, SUPPORT + _SPACING / 2, _SPACING)
    # Half the spacing of the atoms, because on a coarser grid the error peaks between points.
    points = np.arange(0.0, SUPPORT + 4.0, _SPACING / 2)
    cdf = ndtr((points[:, None] - atoms) / sigma) + ndtr((points[:, None] + atoms) / sigma)
    cdf[:, 0] /= 2.0
    copies = np.full(atoms.size, 2.0)
    copies[0] = 1.0
    slack = np.ones((points.size, 1))
    logistic = expit(points)
    solution = linprog(
        np.append(np.zeros(atoms.size), 1.0),
        A_ub=np.block([[cdf, -slack], [-cdf, -slack]]),
        b_ub=np.concatenate([logistic, -logistic]),
        A_eq=np.append(copies, 0.0)[None],
        b_eq=[1.0],
        method="highs",
        # The default tolerance of HiGHS, 1e-7, is coarser than the optimum below sigma = 1.05.
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.x is None:
        raise MinibatchError(
            f"No correction distribution was found for sigma={sigma}: {solution.message} "
            f"Use one of the shipped values {SHIPPED_SIGMAS}."
        )
    return atoms, solution.x[:-1]


def certified_error(sigma: float, atoms: Floats, masses: Floats) -> float:
    """Proved bound on sup |F - S| over all x: F of atoms and masses, S the logistic function.

    On each cell of a grid 20 times finer than the linear programme's, the difference is at most its
    larger end value, plus spacing/4 times the larger slope at its ends, plus spacing^4/384 times a
    bound on its fourth derivative: the remainder of cubic Hermite interpolation. Beyond the grid
    both functions lie between their last value and 1. Symmetry covers x < 0; 1e-14 covers the
    rounding of the sums.
    """
    spacing = _SPACING / 40.0
    points = np.arange(0.0, np.max(atoms) + 16.0, spacing)
    scaled = (points[:, None] - atoms) / sigma
    logistic = expit(points)
    values = np.abs(ndtr(scaled) @ masses - logistic)
    density = np.exp(-0.5 * scaled**2) @ masses / (sigma * np.sqrt(2.0 * np.pi))
    slopes = np.abs(density - logistic * (1.0 - logistic))
    fourth_derivative = 0.551 / sigma**4 + 0.193
    remainder = spacing**4 / 384.0 * fourth_derivative
    exprs = np.maximum(values[1:], values[:-1]) + spacing / 4 * np.maximum(slopes[1:], slopes[:-1])
    tail = max(ndtr(-scaled[-1]) @ masses, expit(-points[-1]))
    return float(max(exprs.max() + remainder, tail) + 1e-14)


@cache
def _shipped_tables() -> dict[float, CorrectionTable]:
    """Correction tables that the package ships, keyed by sigma."""
    with np.load(_TABLE, allow_pickle=False) as stored:
        sigmas, errors, counts = stored["sigma"], stored["error"], stored["count"]
        atoms, masses = stored["atoms"], stored["masses"]
    ends = np.cumsum(counts)
    return {
        float(sigma): CorrectionTable(
            float(sigma), atoms[end - count : end], masses[end - count : end], float(error)
        )
        for sigma, error, count, end in zip(sigmas, errors, counts, ends, strict=True)
    }


class BarkerTest(NamedTuple):
    """Kernel settings of Barker's test, ``mh_barker_test``."""

    LAYOUT, sample_size, decide_batch = (  # type: ignore[misc]
        "mh_barker_test",
        "mh_barker_sample_size",
        "mh_barker_decide",
    )

    #: Minimum batch size, and number of rows added at each further look.
    batch_size: int
    #: |skewness| and E|X|³ of the standardised differences of all observations; frozen after
    #: warm-up.
    skewness: float
    third_moment: float
    #: κ in the predicted variance V = κ M² of a proposal, adapted in warm-up.
    kappa: float
    #: Standard deviation of the log ratio after noise is added.
    sigma: float
    #: `grow`: 1 for growing batches; `novak`: 1 for Novak's bound (both as published); `skewed`: 1
    #: for a skewness correction.
    grow: int
    novak: int
    skewed: int
    #: Target error that determines batch sizes (inf: no target), and the proved error of C_sigma.
    max_error: float
    table_error: float
    #: Atoms of C_sigma in ascending order, their masses, and the upper tail sums of the masses.
    atoms: np.ndarray
    masses: np.ndarray
    tails: np.ndarray


def barker_test(
    sigma: float = 1.2, *, batch_size: int = 100, max_error: float | None = None
) -> BarkerTest:
    """Initial kernel settings of Barker's test; SettingError for incompatible settings."""
    table = correction_table(sigma)
    limit = math.inf if max_error is None else check_positive("max_error", max_error)
    if limit <= table.error:
        raise SettingError(
            f"max_error={max_error} is below {table.error:.2g}, the error of the correction "
            f"distribution at sigma={sigma}, so every update would evaluate all observations. "
            "Raise max_error or lower sigma."
        )
    return BarkerTest(
        batch_size=batch_size,
        **UNMEASURED,
        sigma=float(table.sigma),
        grow=0,
        novak=0,
        skewed=0,
        max_error=limit,
        table_error=float(table.error),
        atoms=np.ascontiguousarray(table.atoms),
        masses=np.ascontiguousarray(table.masses),
        tails=np.append(np.cumsum(table.masses[::-1])[::-1], 0.0),
    )


class BarkerMethod(BatchMethod):
    """Method of :class:`BarkerMinibatchMH`."""

    guarantee = Guarantee(
        Promise.APPROXIMATE,
        "distance of the batch's noise from the normal distribution, estimated for every update",
    )
    walk_target = 0.159


@dataclass(frozen=True, kw_only=True)
class BarkerTestSettings(SharedSettings):
    """Settings of Barker's tests; :func:`barker_test` checks their combinations.

    Parameters
    ----------
    batch_size : int
        Size of the smallest batch, and of every further one.
    sigma : float in (0.5, 1.7]
        Standard deviation of the log ratio after noise is added to that of the batch. The batch
        size is proportional to 1/sigma²; the correction has an error of 1.6e-5 at 1.2, 5.4e-8 at 1.
    max_error : float, optional
        Largest predicted error of the acceptance probability.
    """

    batch_size: int = setting_field(partial(check_integer, least=2), default=100)
    sigma: float = setting_field(check_positive, default=1.2)
    max_error: float | None = setting_field(default=None)

    @property
    def test(self) -> BarkerTest:
        """Initial kernel settings."""
        return barker_test(self.sigma, batch_size=self.batch_size, max_error=self.max_error)


@dataclass(frozen=True, kw_only=True)
class BarkerSettings(BarkerTestSettings):
    """Settings of :class:`BarkerMinibatchMH`.

    Parameters
    ----------
    skew_correction : bool
        Whether to correct the acceptance probability for the batch's skewness.
    """

    skew_correction: bool = setting_field(check_flag, default=False)

    @property
    def test(self) -> BarkerTest:
        """Initial kernel settings."""
        return super().test._replace(skewed=int(self.skew_correction))


class BarkerMinibatchMH(MinibatchStep):
    """Minibatch Metropolis–Hastings with Barker's acceptance rule.

    Guarantee: *approximate*. The statistic ``error_estimate`` estimates the error of each
    acceptance probability, and `max_error` limits it by larger batches. The page "Approximate
    methods" says which errors remain.

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

    name = "barker_minibatch_mh"

    @takes_settings(BarkerSettings)
    def __init__(self, settings: BarkerSettings) -> None:
        self._prepare(settings, BarkerMethod(settings.test))
