"""Barker's test on a minibatch: approximate, with an estimate of the error of each decision.

Accept iff D* + X_nc + X_corr > 0, where D* is the log ratio estimated from b rows, X_nc is
N(0, sigma^2 - s^2), s^2 is the estimated variance of D*, and X_corr follows the tabulated law
C_sigma. The two auxiliary variables are integrated out, so one uniform decides:

    p = sum_j m_j Phi((D* + c_j) / sqrt(sigma^2 - s^2)),    accept iff uniform < p.

Were D* normal with variance s^2, the acceptance probability would be that of Barker (1965),
doi:10.1071/PH650119, up to the certified error of C_sigma; the error estimate says how far a batch
is from that. With all rows read the test is exact.

C_sigma takes the place of the logistic X that exact differences D need: N(0, sigma^2) + C_sigma ~
standard logistic. No exact one exists for any sigma > 0. The one tabulated here is discrete and
symmetric and minimises the largest distance between the two distribution functions, which is
the largest error that it can add to an acceptance probability. The linear programme replaces the
ridge regression of Seita et al. (2017), doi:10.48550/arXiv.1610.06848, whose error is larger and
whose density has negative parts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray
from pytensor.graph.basic import Variable
from scipy.special import expit, ndtr

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.checks import choice, flag, integer, positive
from pymc_minibatch_mh.errors import MinibatchError, SettingError
from pymc_minibatch_mh.kernels.looks import look_until_decided
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import (
    AIM,
    UNMEASURED,
    BatchMethod,
    logistic,
    normal_cdf,
    rows_for_variance,
)
from pymc_minibatch_mh.steps.settings import SharedSettings

Floats = NDArray[np.float64]

SHIPPED_SIGMAS = (0.9, 1.0, 1.1, 1.2, 1.3)
SMALLEST_SIGMA, LARGEST_SIGMA = 0.5, 1.7
SUPPORT = 24.0
_SPACING = 0.1
_NEGLIGIBLE_MASS = 1e-12
_TABLE = Path(__file__).with_name("correction.npz")


@dataclass(frozen=True, eq=False)
class CorrectionTable:
    """A discrete law C_sigma with N(0, sigma^2) + C_sigma close to the standard logistic."""

    sigma: float
    #: Support, ascending and symmetric about 0, shape (K,), and non-negative probabilities.
    atoms: Floats
    masses: Floats
    #: Bound on sup |F(x) - 1/(1 + exp(-x))| over all real x, F the distribution function of the
    #: sum.
    error: float

    def __post_init__(self) -> None:
        # A cached table is shared by every chain of the process.
        self.atoms.setflags(write=False)
        self.masses.setflags(write=False)


def correction_table(sigma: float) -> CorrectionTable:
    """Return the law C_sigma for a noise of standard deviation `sigma`, in (0.5, 1.7].

    Tables for 0.9, 1.0, 1.1, 1.2 and 1.3 are shipped; others take about half a second once per
    process. The certified error is 5.4e-8 at sigma=1, 1.7e-5 at 1.2 and 1.1e-4 at 1.3. SettingError
    if `sigma` is not in that interval.
    """
    sigma = float(sigma)
    if not SMALLEST_SIGMA < sigma <= LARGEST_SIGMA:
        raise SettingError(
            f"sigma={sigma} is outside ({SMALLEST_SIGMA}, {LARGEST_SIGMA}]: below, a test "
            "evaluates many observations for no gain in accuracy; above, a logistic variable has "
            "almost no variance left for the correction. Use 1.2, or 1.0 for an error below 6e-8."
        )
    shipped = _shipped_tables()
    return shipped[sigma] if sigma in shipped else minimax_correction(sigma)


@cache
def minimax_correction(sigma: float) -> CorrectionTable:
    """Solve the minimax problem for C_sigma and certify the solution.

    MinibatchError if HiGHS does not solve the linear programme.
    """
    half_atoms, half_masses = _solve_half(sigma)
    kept = half_masses > _NEGLIGIBLE_MASS
    half_atoms, half_masses = half_atoms[kept], half_masses[kept]
    positive = half_atoms > 0.0
    atoms = np.concatenate([-half_atoms[positive][::-1], half_atoms])
    masses = np.concatenate([half_masses[positive][::-1], half_masses])
    masses /= masses.sum()
    return CorrectionTable(sigma, atoms, masses, certified_error(sigma, atoms, masses))


def _solve_half(sigma: float) -> tuple[Floats, Floats]:
    """Minimise the largest error over the masses of the atoms at and above 0."""
    # The shipped tables need no solver, which is slow to import.
    from scipy.optimize import linprog  # noqa: PLC0415

    atoms = np.arange(0.0, SUPPORT + _SPACING / 2, _SPACING)
    # Half the spacing: with a point per atom the error peaks between the points.
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
        # HiGHS's own 1e-7 is coarser than the optimum below sigma = 1.05.
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.x is None:
        raise MinibatchError(
            f"No correction distribution was found for sigma={sigma}: {solution.message} "
            f"Use one of the shipped values {SHIPPED_SIGMAS}."
        )
    return atoms, solution.x[:-1]


def certified_error(sigma: float, atoms: Floats, masses: Floats) -> float:
    """Bound sup |F - S| over all real x, F the law of atoms and masses and S the logistic.

    On each cell of a grid 20 times finer than the linear programme's, the difference is at
    most its larger end value, plus spacing/4 times the larger slope at its ends, plus
    spacing^4/384 times a bound on its fourth derivative: the remainder of cubic Hermite
    interpolation. Beyond the grid both functions lie between their last value and 1. Symmetry
    covers x < 0; 1e-14 covers the rounding of the sums.
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
    """Read the tables that the package ships, by their sigma."""
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
    """Settings of the test in a chain."""

    #: Rows of the smallest batch, and of every further look.
    batch_size: int
    #: |skewness| and E|X|³ of the standardised differences, measured on all rows; frozen after
    #: warm-up.
    skewness: float
    third_moment: float
    #: κ in the predicted variance V = κ M² of a move, adapted in warm-up.
    kappa: float
    #: Standard deviation that the noise of the log ratio is topped up to.
    sigma: float
    #: 1 for `batch_rule="grow"`, `error_bound="novak"` and a corrected skewness; else 0.
    grow: int
    novak: int
    skewed: int
    #: Error that a batch is sized for, infinite for none; and the certified error of C_sigma.
    max_error: float
    table_error: float
    #: Atoms of C_sigma in ascending order, their masses, and the mass of each and all later ones.
    atoms: np.ndarray
    masses: np.ndarray
    tails: np.ndarray


BarkerTest.decide = look_until_decided  # type: ignore[attr-defined]


# Beyond, Phi is 0 or 1 in double precision.
_REACH = 8.3
#: Share of sigma^2 that the variance of a batch may have for its skewness to be corrected for: with
#: less noise added, the acceptance probability is too rough for a third derivative.
SKEW_ROOM = 0.85
# sup |S''| of the logistic function S.
_CURVATURE = 1.0 / (6.0 * math.sqrt(3.0))


def barker_test(
    sigma: float = 1.2,
    *,
    batch_size: int = 100,
    batch_rule: str = "predict",
    error_bound: str = "edgeworth",
    max_error: float | None = None,
    skew_correction: bool = False,
) -> BarkerTest:
    """Check the settings of :class:`BarkerMinibatchMH`, and return the record of a chain.

    "predict" sizes one batch for a variance of 0.7 sigma² and at most the predicted error
    `max_error`; "grow" reads on until s < sigma and the estimated error is below it.
    """
    choice("batch_rule", batch_rule, ("predict", "grow"))
    choice("error_bound", error_bound, ("edgeworth", "novak"))
    if skew_correction and batch_rule == "grow":
        raise SettingError(
            "skew_correction=True needs a batch size that is known before drawing, but "
            "batch_rule='grow' enlarges batches while drawing. Use 'predict'."
        )
    table = correction_table(positive("sigma", sigma))
    limit = math.inf if max_error is None else positive("max_error", max_error)
    if limit <= table.error:
        raise SettingError(
            f"max_error={max_error} is below {table.error:.2g}, the error of the correction "
            f"distribution at sigma={sigma}, so every update would evaluate all observations. "
            "Raise max_error or lower sigma."
        )
    return BarkerTest(
        batch_size=integer("batch_size", batch_size, 2),
        **UNMEASURED,
        sigma=float(table.sigma),
        grow=int(batch_rule == "grow"),
        novak=int(error_bound == "novak"),
        skewed=int(flag("skew_correction", skew_correction)),
        max_error=limit,
        table_error=float(table.error),
        atoms=np.ascontiguousarray(table.atoms),
        masses=np.ascontiguousarray(table.masses),
        tails=np.append(np.cumsum(table.masses[::-1])[::-1], 0.0),
    )


@compiled(inlined=True)
def acceptance_probability(log_ratio, variance, test):
    """Return P(D* + X_nc + X_corr > 0), with X_nc = 0 where the variance exceeds sigma²."""
    room = test.sigma**2 - variance
    noise = math.sqrt(room) if room > 0.0 else 0.0
    lower = np.searchsorted(test.atoms, -log_ratio - _REACH * noise)
    upper = np.searchsorted(test.atoms, -log_ratio + _REACH * noise, "right")
    probability = test.tails[upper]
    for j in range(lower, upper):
        share = normal_cdf((log_ratio + test.atoms[j]) / noise) if noise > 0.0 else 0.5
        probability += test.masses[j] * share
    return probability


@compiled(inlined=True)
def skew_shift(log_ratio, variance, skewness, n, total, test):
    """Return the first Edgeworth correction of the acceptance probability F(D*, s²) of a batch.

    With third moments of the rows, E F(D*, s²) = S(D) - (2-f) g s³ S'''(D) / (6 √(n(1-f))) to the
    order 1/√n: added is the same with F''' for S''', whose mean is S'''. The skewed limit law of
    the paper's appendix A.5 has a shift besides, which belongs to a studentised mean.
    """
    if not (variance < SKEW_ROOM * test.sigma**2 and abs(skewness) < math.inf):
        return 0.0
    noise = math.sqrt(test.sigma**2 - variance)
    bend = 0.0
    for j in range(test.atoms.size):
        z = (log_ratio + test.atoms[j]) / noise
        bend += test.masses[j] * math.exp(-0.5 * z * z) * (z * z - 1.0)
    bend /= math.sqrt(2.0 * math.pi) * noise**3
    f = n / total
    return (2.0 - f) * skewness * variance**1.5 * bend / (6.0 * math.sqrt(n * (1.0 - f)))


@compiled(inlined=True)
def error_estimate(variance, skewness, n, total, test):
    """Estimate the error of the acceptance probability of a batch of n of all `total` rows.

    "edgeworth": the leading error of a studentised mean, (2-f) |g| s³ / (48 √(n(1-f))) + 0.0319
    s⁴/(n-1) with f = n/total and g the larger of the batch's and the measured skewness (NaN counts
    as 0), plus |g| sigma / (4 √n) with the rule "grow", whose stopping shifts D*. "novak": (6.4 m +
    2)/√n, the paper's corollary 1 with E|X| <= 1 and m the larger of the measured E|X|³ and |g|, a
    bound for independent rows and true moments only. Both plus the error of the table and, where s²
    > sigma², (s² - sigma²) sup|S''|/2 for noise that is not compensated. 0 with all rows read.
    """
    if n >= total:
        return 0.0
    skew = abs(skewness) if abs(skewness) > test.skewness else test.skewness
    sigma = test.sigma
    error = test.table_error + max(0.0, variance - sigma * sigma) * _CURVATURE / 2.0
    if test.novak:
        error += (6.4 * max(test.third_moment, skew) + 2.0) / math.sqrt(n)
    else:
        f = n / total
        error += (2.0 - f) * skew * variance**1.5 / (48.0 * math.sqrt(n * (1.0 - f)))
        error += 0.0319 * variance * variance / (n - 1.0)
        if test.grow:
            error += skew * sigma / (4.0 * math.sqrt(n))
    return min(error, 1.0)


@compiled()
def _rows_for_error(noise, n, total, test):
    """Return the smallest batch from `n` rows on whose predicted error is small enough."""
    limit = test.max_error
    low, high = n - 1, total
    if error_estimate(noise * (1.0 / n - 1.0 / total), 0.0, n, total, test) <= limit:
        return n
    while high - low > 1:
        middle = (low + high) // 2
        variance = noise * (1.0 / middle - 1.0 / total)
        if error_estimate(variance, 0.0, middle, total, test) <= limit:
            high = middle
        else:
            low = middle
    return high


@role_of(BarkerTest, "sample_size")
@compiled(inlined=True)
def sample_size(noise, n, total, test):
    """Return the rows of the next look: see :func:`roles.sample_size`.

    "predict": b = ceil(1/(1/total + 0.7 sigma²/V)), or more for `max_error`. V has to be symmetric
    in the two positions, or the test is biased. "grow": `batch_size` more, whatever V is.
    """
    batch_size = test.batch_size
    if test.grow:
        return min(total, n + batch_size)
    rows = rows_for_variance(noise, total, AIM * test.sigma**2)
    rows = max(rows, batch_size)
    if rows >= total:
        return total
    return _rows_for_error(noise, rows, total, test)


@role_of(BarkerTest, "decide_batch")
@compiled(inlined=True)
def decide_batch(log_ratio, variance, skewness, n, total, uniform, test):
    """Decide on a proposal, or read more with the rule "grow": see :func:`roles.decide_batch`.

    The skewness is for the error estimate, and for the correction if there is one.
    """
    if not log_ratio > -math.inf:
        return 0.0, 0.0, 0.0
    if n >= total or log_ratio == math.inf:
        probability = logistic(log_ratio)
        return (1.0 if uniform < probability else 0.0), probability, 0.0
    probability = acceptance_probability(log_ratio, variance, test)
    if test.skewed:
        shift = skew_shift(log_ratio, variance, skewness, n, total, test)
        probability = min(max(probability + shift, 0.0), 1.0)
    error = error_estimate(variance, skewness, n, total, test)
    if test.grow and not (variance < test.sigma**2 and error <= test.max_error):
        return -1.0, probability, error
    return (1.0 if uniform < probability else 0.0), probability, error


class BarkerMethod(BatchMethod):
    """Barker's test, as a step runs it."""

    guarantee = Guarantee(
        Promise.APPROXIMATE,
        "distance of the batch's noise from the normal distribution, estimated for every update",
    )
    walk_target = 0.159


class BarkerMinibatchMH(MinibatchStep):
    """Minibatch Metropolis–Hastings with Barker's acceptance rule.

    Guarantee: *approximate*. The statistic ``error_estimate`` estimates the error of each
    acceptance probability, and `max_error` limits it by larger batches. The page "Approximate
    methods" says which errors remain.

    Parameters
    ----------
    vars : list of variables, optional
        Variables to update; by default all continuous ones. Other steps update the rest.
    batch_size : int
        Size of the smallest batch.
    sigma : float in (0.5, 1.7]
        Standard deviation of the log ratio after noise is added to that of the batch. The batch
        size is proportional to 1/sigma²; the correction has an error of 1.6e-5 at 1.2, 5.4e-8 at 1.
    batch_rule : {"predict", "grow"}
        "predict" sizes a batch by the proposal before it is drawn. "grow", as published, enlarges
        it until its noise is below sigma, which biases decisions.
    max_error : float, optional
        Largest predicted error of the acceptance probability.
    error_bound : {"edgeworth", "novak"}
        Estimate of the leading error terms, or the published bound.
    skew_correction : bool
        Whether to correct the acceptance probability for the batch's skewness; for "predict" only.
    **settings
        Settings of all step methods: see :class:`SharedSettings`.

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

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 100,
        sigma: float = 1.2,
        batch_rule: str = "predict",
        max_error: float | None = None,
        error_bound: str = "edgeworth",
        skew_correction: bool = False,
        **settings: Unpack[SharedSettings],
    ) -> None:
        test = barker_test(
            sigma,
            batch_size=batch_size,
            batch_rule=batch_rule,
            error_bound=error_bound,
            max_error=max_error,
            skew_correction=skew_correction,
        )
        self._prepare(vars, BarkerMethod(test), **settings)
