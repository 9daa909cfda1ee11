"""Poisson-minibatch tests: Metropolis–Hastings that reads a Poisson number of rows.

Rows' remainders r_i, their changes dU_i = -β[r_i(θ') - r_i(θ)], bounds |dU_i| <= c_i M(θ, θ')
with M symmetric, C = Σ c_i, and λ_c the log ratio of the cheap part and the proposals. Every row
has an intensity φ_i(θ→θ') >= 0 below a ceiling φ̄_i, with φ_i(θ→θ') - φ_i(θ'→θ) = dU_i:

    form         φ_i(θ→θ')                          φ̄_i
    best         φ̄_i + min(0, dU_i)                 c_i M (1 + χ C M)
    paper        χ c_i C M² + (dU_i + c_i M)/2      c_i M (1 + χ C M)
    factorized   max(0, dU_i)                       c_i M                   (χ = 0)

Draw B ~ Poisson(R), R = Σ φ̄_i = C M (1 + χ C M), and B rows with repetition, row i with
probability c_i/C; keep each with probability φ_i/φ̄_i, which makes the times s_i that row i is
kept independent Poisson(φ_i(θ→θ')); accept with

    min(1, exp(λ_c) Π_i [φ_i(θ'→θ)/φ_i(θ→θ')]^s_i)

or, with delayed acceptance, min(1, exp(λ_c)) before any row is read, times min(1, Π...).
*best* at χ = 0 is MH-SS; *paper* is TunaMH as published, *factorized* SMH, where every kept row
rejects. *best* has the largest φ below the ceiling: it reads as many rows as *paper*, and accepts
at least as often.

Guarantee
---------
Exact given valid bounds: reversible for the target, whatever χ. With π ∝ π_c exp(-Σ U_i) and
q the proposal, moving from θ to θ' with counts s has the density

    min{π(θ) q(θ'|θ) Π e^{-φ_i(θ→θ')} φ_i(θ→θ')^s_i,
        π_c(θ') q(θ|θ') e^{-ΣU_i(θ)} Π e^{-φ_i(θ→θ')} φ_i(θ'→θ)^s_i} / Π s_i!

and -U_i(θ) - φ_i(θ→θ') = -U_i(θ') - φ_i(θ'→θ) turns the second entry into the first with θ and
θ' exchanged; with delayed acceptance each stage balances its own factor of the target.

A pair may be decided by all rows instead, if what decides so is symmetric in θ and θ' and knows
no row that was drawn. Clipping a change to ± its bound is odd, hence the test still balances the
pair, but for another ratio wherever a bound does not hold.

Settings
--------
A float64 vector with the slots `FORM`, `CHI`, `DELAYED`, `MAX_RATE` and `TOLERATE`.

References
----------
Zhang, Cooper, De Sa (2020), "Asymptotically optimal exact minibatch Metropolis-Hastings",
Advances in Neural Information Processing Systems 33, arXiv:2006.11677.
Prado, Nemeth, Sherlock (2024), "Metropolis-Hastings with scalable subsampling",
arXiv:2407.19602.
Cornish, Vanetti, Bouchard-Côté, Deligiannidis, Doucet (2019), "Scalable Metropolis-Hastings for
exact Bayesian inference with large datasets", International Conference on Machine Learning 36,
arXiv:1901.09881.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.signatures import ACCEPT_SIGNATURE, RATE_SIGNATURE, THIN_SIGNATURE

#: One of `BEST`, `PAPER` and `FACTORIZED`.
FORM = 0
#: χ, what every row's intensity is raised by, in units of c_i C M².
CHI = 1
#: 1: the cheap part decides first, without reading a row. 0: one decision.
DELAYED = 2
#: Expected rows R above which a pair is decided by all rows; frozen after warm-up.
MAX_RATE = 3
#: 1: a change beyond its bound is clipped and marked. 0: it stops the chain.
TOLERATE = 4
#: Number of slots.
SLOTS = 5

BEST, PAPER, FACTORIZED = range(3)
FORMS = {"best": BEST, "paper": PAPER, "factorized": FACTORIZED}

# Where `best_chi` looks besides 0, and how close it gets on the logarithmic scale.
_CHI_GRID = np.geomspace(1e-8, 1e6, 141)
_LOG_CHI_PRECISION = 1e-4
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def settings(
    form: str = "best",
    chi: float = 0.0,
    *,
    delayed_acceptance: bool = False,
    max_rate: float = math.inf,
    tolerate: bool = False,
) -> NDArray[np.float64]:
    """Validate and pack the settings of the test.

    Parameters
    ----------
    form
        "best", "paper" or "factorized": the intensities, see the module.
    chi
        χ: a larger one reads χ(CM)² more rows and accepts more often. 0 for "factorized".
    delayed_acceptance
        Let the cheap part decide first, without reading a row.
    max_rate
        Expected number of rows above which a pair is decided by all rows.
    tolerate
        Clip and mark a change beyond its bound instead of stopping the chain.

    Returns
    -------
    ndarray
        Layout as in the module's docstring, shape (5,).

    Raises
    ------
    SettingError
        If a setting is out of range.
    """
    if form not in FORMS:
        raise SettingError(f"form={form!r} is unknown. Use one of {', '.join(FORMS)}.")
    if not 0.0 <= chi < math.inf:
        raise SettingError(
            f"chi={chi} is not a number of 0 or more: it multiplies the expected rows. Use "
            "'auto' or a number such as 1.0."
        )
    if FORMS[form] == FACTORIZED and chi != 0.0:
        raise SettingError(
            f"chi={chi} has no meaning with form='factorized', where every kept row rejects. "
            "Use chi=0, or form='best'."
        )
    if not max_rate >= 0.0:
        raise SettingError(
            f"max_rate={max_rate} is no number of rows. Use a number of 0 or more, or inf for no "
            "limit."
        )
    packed = np.empty(SLOTS)
    packed[FORM] = FORMS[form]
    packed[CHI] = chi
    packed[DELAYED] = bool(delayed_acceptance)
    packed[MAX_RATE] = max_rate
    packed[TOLERATE] = bool(tolerate)
    return packed


@compiled(RATE_SIGNATURE)
def rate(size, settings):
    """Return the expected number of rows R = size (1 + χ size) of a move of `size` C M."""
    return size * (1.0 + settings[CHI] * size)


@compiled(THIN_SIGNATURE)
def thin(change, bound, size, settings):
    """Thin a drawn row, and weigh it.

    Parameters
    ----------
    change
        dU_i, within ± `bound`.
    bound
        c_i M.
    size
        C M.
    settings
        See the module.

    Returns
    -------
    tuple of float
        Probability φ_i(θ→θ')/φ̄_i of keeping the row, and log[φ_i(θ'→θ)/φ_i(θ→θ')], what a kept
        row adds to the log ratio: -inf where φ_i(θ'→θ) = 0. A row that is never kept adds 0.
        Both come from one rounded quotient that is odd in `change`, so that rounding moves the
        target by an ulp of the changes and leaves the test reversible.
    """
    if not bound > 0.0:
        return 0.0, 0.0
    form = settings[FORM]
    raised = settings[CHI] * size
    if form == FACTORIZED:
        return (change / bound, -math.inf) if change > 0.0 else (0.0, 0.0)
    if form == PAPER:
        share = change / (bound * (1.0 + 2.0 * raised))
        keep = min(1.0, (1.0 + share) * (0.5 + raised) / (1.0 + raised))
        log_forth, log_back = math.log1p(share), math.log1p(-share)
    else:
        share = change / (bound * (1.0 + raised))
        keep = 1.0 + min(0.0, share)
        log_forth, log_back = math.log1p(min(0.0, share)), math.log1p(-max(0.0, share))
    if keep == 0.0:
        return 0.0, 0.0
    return keep, log_back - log_forth


@compiled(ACCEPT_SIGNATURE)
def accept_probability(cheap, log_product, delayed):
    """Return the probability that a move is accepted, given its kept rows.

    Parameters
    ----------
    cheap
        λ_c.
    log_product
        Σ of what the kept rows add or, on a pair that is decided by all rows, Δ - λ_c.
    delayed
        The slot `DELAYED`: with 1, `cheap` and `log_product` decide one after the other.

    Returns
    -------
    float
        min(1, exp(cheap + log_product)), or min(1, exp(cheap)) min(1, exp(log_product)).
        A log ratio of NaN or -inf rejects.
    """
    log_ratio = cheap + log_product
    if not log_ratio > -math.inf:
        return 0.0
    if delayed != 0.0:
        return math.exp(min(0.0, cheap) + min(0.0, log_product))
    return math.exp(min(0.0, log_ratio))


def best_chi(
    sizes: ArrayLike, mean_square: float, row_cost: float, max_rate: float = math.inf
) -> float:
    """Choose the χ that makes most effective draws in a given time.

    Parameters
    ----------
    sizes
        C M of typical moves. Those that read all rows whatever χ is are left out.
    mean_square
        Mean of (dU_i/(c_i M))² over drawn rows, in [0, 1].
    row_cost
        Cost of a row, in units of all else that an update costs.
    max_rate
        Expected rows above which all rows decide, without noise, at the cost of as many.

    Returns
    -------
    float
        The maximum over χ >= 0 of the mean of a/(2 - a)/(1 + row_cost R), with the acceptance
        a = 2Φ(-√v/2) that noise of variance v = mean_square CM/(1 + χ CM) leaves, up to χ <= 1e6
        and to 0.01 % in χ; to a quarter, where moves that read all rows make it jump. An
        independence move that is accepted with probability a has an effective sample of
        a/(2 - a) per update: near 1, every lost move counts twice.
    """
    moves = np.asarray(sizes, dtype=np.float64)
    moves = moves[(moves > 0.0) & (moves < math.inf) & (moves <= max_rate)]
    if moves.size == 0:
        return 0.0

    def efficiency(chi: float) -> float:
        raised = 1.0 + chi * moves
        deviations = np.sqrt(mean_square * moves / (8.0 * raised))
        accepted = np.array([math.erfc(deviation) for deviation in deviations])
        accepted[moves * raised > max_rate] = 1.0
        effective = accepted / (2.0 - accepted)
        return float(np.mean(effective / (1.0 + row_cost * np.minimum(moves * raised, max_rate))))

    best = int(np.argmax([efficiency(chi) for chi in _CHI_GRID]))
    low, high = math.log(_CHI_GRID[max(best - 1, 0)]), math.log(_CHI_GRID[best])
    if best + 1 < _CHI_GRID.size:
        high = math.log(_CHI_GRID[best + 1])
    while high - low > _LOG_CHI_PRECISION:
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if efficiency(math.exp(left)) >= efficiency(math.exp(right)):
            high = right
        else:
            low = left
    return max(0.0, float(_CHI_GRID[best]), math.exp(0.5 * (low + high)), key=efficiency)


def largest_chi(size: float, max_rate: float) -> float:
    """Return the χ at which a move of `size` C M is expected to read `max_rate` rows.

    It is 0 where the move reads all rows whatever χ is, and infinite for one that reads none.
    """
    if not 0.0 < size < max_rate:
        return math.inf if size == 0.0 else 0.0
    return (max_rate / size - 1.0) / size


def chi_for_gap(ratio: float) -> float:
    """Return the χ that keeps a share of the spectral gap of Metropolis–Hastings.

    Parameters
    ----------
    ratio
        κ, least ratio of the spectral gap to that of a test that reads all rows.

    Returns
    -------
    float
        χ = 4/((1 - κ) log(1/κ)), proven by Zhang et al. (2020, appendix F) for "paper" without
        delayed acceptance; it holds for "best", which accepts at least as often. Very loose:
        as an estimate, far smaller χ keep that share.

    Raises
    ------
    SettingError
        If the ratio is not within (0, 1).
    """
    if not 0.0 < ratio < 1.0:
        raise SettingError(
            f"spectral_gap_ratio={ratio} is outside (0, 1): no finite chi keeps the whole gap. "
            "Use a number such as 0.5, or set chi."
        )
    return 4.0 / ((1.0 - ratio) * math.log(1.0 / ratio))
