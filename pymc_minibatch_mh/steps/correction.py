"""The correction distribution of the Barker test, tabulated.

Barker's test accepts iff D + X > 0 with X standard logistic and D the exact log ratio. A batch
gives D plus noise that is close to N(0, sigma^2), so the test draws X_corr from a law C_sigma with

    N(0, sigma^2) + X_corr  ~  standard logistic

instead of X. No exact C_sigma exists for any sigma > 0. The one tabulated here is discrete and
symmetric and minimises the largest distance between the two distribution functions, which is
the largest error that it can add to an acceptance probability. The linear programme replaces the
ridge regression of Seita et al. (2017), doi:10.48550/arXiv.1610.06848, whose error is larger and
whose density has negative parts.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from pymc_minibatch_mh.errors import MinibatchError, SettingError

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
            f"sigma={sigma} is outside ({SMALLEST_SIGMA}, {LARGEST_SIGMA}]: below, a test reads "
            "many rows for no gain in accuracy; above, a logistic variable has almost no "
            "variance left for the correction. Use 1.2, or 1.0 for an error below 6e-8."
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
