"""The confidence sampler: concentration bounds decide on growing batches.

The uniform u is drawn first. With l_i = β[r_i(θ') - r_i(θ)] and λ_c the part of the log ratio that
needs no row, Metropolis accepts iff the mean of all l_i exceeds mu_0 = (log u - λ_c)/N. Look k at
n rows, drawn without replacement, stops where the mean of theirs is further from mu_0 than

    c_n = s sqrt(2 log(3/δ_k)/n) + 3 R log(3/δ_k)/n,      δ_k = (p - 1) δ/(p k^p),

an empirical Bernstein bound (Audibert, Munos, Szepesvári 2009, doi:10.1016/j.tcs.2009.01.016): s
has divisor n, and R is at least the range of the l_i. Otherwise the next look has gamma times as
many rows, until all of them decide: with "bounds" already where it would exceed
`full_pass_above`. Looks count from k = 2.

    range     s                      R                    rows beside the batches
    bounds    of the batch           2 M max c_i          none
    scan      of all rows            2 max|l_i|           all of them, at every update

"bounds" takes c_i and M from the derived table that serves the move, and reads all rows where
none does. "scan" is the test as its comparison in Seita et al. (2017) was run.

An update decides otherwise than Metropolis on all rows, for the same u, with probability
Σ_{k>=2} δ_k < δ/p at most, at every pair of positions, if no l_i is outside of R: the scan makes
sure of that, and every row that is read otherwise is checked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

import numpy as np
from pytensor.graph.basic import Variable

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.checks import choice, integer, positive
from pymc_minibatch_mh.data import digest
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.bound_tables import smallest_table
from pymc_minibatch_mh.kernels.draw import draw_more, reserve
from pymc_minibatch_mh.kernels.looks import add_moments, read_rest, scan_rows
from pymc_minibatch_mh.kernels.moves import hold_against_bound
from pymc_minibatch_mh.kernels.posterior import read_drawn
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.kernels.vectors import scratch
from pymc_minibatch_mh.plan.method import Guarantee, Method, Promise
from pymc_minibatch_mh.plan.plan import Plan, Requirements
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import SharedSettings

#: Number k of the first look.
FIRST_LOOK = 2


class ConfidenceTest(NamedTuple):
    """Settings of the test in a chain."""

    #: Rows of the first look, and by how much they are multiplied for the next one.
    batch_size: int
    gamma: float
    #: p and δ of the levels δ_k.
    p: float
    delta: float
    #: 1 for `range="scan"`, 0 for "bounds".
    scans: int
    #: Largest c_i of every table, shape (T,); empty with a scan.
    largest: np.ndarray


def confidence_test(
    batch_size: int = 100,
    gamma: float = 2.0,
    p: float = 2.0,
    delta: float = 0.01,
    *,
    scans: bool = False,
) -> ConfidenceTest:
    """Check the settings of :class:`ConfidenceMH`, and return the record of a chain."""
    size, gamma = integer("batch_size", batch_size, 2), positive("gamma", gamma)
    p, delta = positive("p", p), positive("delta", delta)
    if not gamma > 1.0:
        raise SettingError(f"gamma={gamma} is not above 1, so batches would not grow. Use 2.0.")
    if not p > 1.0:
        raise SettingError(
            f"p={p} is not a power above 1: the errors of all looks would add up to more than "
            "delta. Use 2.0."
        )
    if not delta < 1.0:
        raise SettingError(
            f"delta={delta} is not a probability between 0 and 1. Use 0.01, or less for fewer "
            "wrong decisions and more rows."
        )
    return ConfidenceTest(size, gamma, p, delta, int(scans), np.empty(0))


@compiled(inlined=True)
def next_rows(n, total, most_drawn, test):
    """Return how many rows the look after one at `n` rows must have read, `total` at most.

    From `most_drawn` on all are read, but after a scan, where looks are as published.
    """
    target = max(n + 1, math.ceil(test.gamma * n)) if n > 0 else test.batch_size
    limit = total if test.scans else min(most_drawn, total)
    return total if target >= limit else target


@compiled(inlined=True)
def level(look, test):
    """Return δ_k of a look, the probability that it decides wrongly."""
    return (test.p - 1.0) * test.delta / (test.p * look**test.p)


@compiled(inlined=True)
def half_width(deviation, reach, n, level):
    """Return c_n, how far the mean of n rows is from that of all but for a probability `level`.

    `deviation` is that of the l_i, with divisor n, and `reach` R, no less than their range.
    """
    bits = math.log(3.0 / level)
    return deviation * math.sqrt(2.0 * bits / n) + 3.0 * reach * bits / n


@compiled(inlined=True)
def decide_batch(log_ratio, width, uniform):
    """Return verdict and min(1, exp(log ratio)): see :func:`roles.decide_batch`.

    `width` is N c_n, 0 with all rows read.
    """
    if not log_ratio > -math.inf:
        return 0.0, 0.0
    probability = math.exp(min(0.0, log_ratio))
    threshold = math.log(uniform) if uniform > 0.0 else -math.inf
    if width > 0.0 and not abs(log_ratio - threshold) > width:
        return -1.0, probability
    return (1.0 if log_ratio > threshold else 0.0), probability


@compiled(spliced=True)
def _look_at_more(posterior, move, drawn, bounds, moments, counts):
    """Read more rows; return number, mean and central sums of all that were read."""
    count = drawn.size
    differences, scales = scratch(count, np.float64), scratch(count, np.float64)
    rows = scratch(count, np.int64)
    read_drawn(posterior, move, drawn, rows, differences, scales)
    table, m = bounds
    if table >= 0:
        c, beta = posterior.tables.c[table], posterior.reference.inverse_temperature
        for i in range(count):
            bound = c[rows[i]] * m
            hold_against_bound(rows[i], differences[i], scales[i], bound, beta, counts)
    return add_moments(moments[0], moments[1], moments[2], moments[3], differences, count)


@compiled(spliced=True)
def _known_before(test, move, posterior):
    """Return the table and the M of a move, R, and of a scan the mean and the deviation of all."""
    if test.scans == 0:
        table, m = smallest_table(posterior.tables, move, posterior.reference)
        reach = 2.0 * m * test.largest[table] if table >= 0 else np.inf
        return (table, m), reach, 0.0, 0.0
    mean, variance, largest = scan_rows(posterior, move)
    beta = posterior.reference.inverse_temperature
    reach = 2.0 * beta * largest if np.isfinite(mean) else np.inf
    return (-1, np.inf), reach, mean, beta * np.sqrt(variance)


@role_of(ConfidenceTest, "decide")
@compiled(inlined=True)
def decide_by_confidence(test, move, cheap, posterior, rng, counts):
    """Read rows until their mean is surely on one side: see :func:`roles.decide`."""
    total = posterior.space.term_starts[-1]
    beta = posterior.reference.inverse_temperature
    uniform = rng.random()
    bounds, reach, mean_of_all, deviation_of_all = _known_before(test, move, posterior)
    drawn, table = np.empty(0, np.int64), np.empty(0, np.int64)
    n, read, look, moments = 0, test.scans * total, FIRST_LOOK, (0, 0.0, 0.0, 0.0)
    while True:
        target = next_rows(n, total, posterior.most_drawn, test) if reach < np.inf else total
        counts[entry.N_LOOKS] += 1.0
        if target == total:
            if test.scans == 0:
                change, count = read_rest(posterior, move, drawn, table, moments, 0.0)
                mean_of_all, read = change / total, read + count
            n, error, width = total, 0.0, 0.0
            log_ratio = cheap + beta * total * mean_of_all
        else:
            drawn, table = reserve(drawn, table, n, target, total)
            draw_more(rng, total, drawn, table, n, target)
            moments = _look_at_more(posterior, move, drawn[n:target], bounds, moments, counts)
            if not counts[entry.BOUND_RATIO] <= 1.0:
                return -1.0, 0.0, float(target)
            read, n, error = read + target - n, target, np.sqrt(moments[2]) / target
            deviation = beta * np.sqrt(moments[2] / n) if test.scans == 0 else deviation_of_all
            width = total * half_width(deviation, reach, n, level(look, test))
            counts[entry.ERROR] += level(look, test)
            log_ratio = cheap + beta * total * moments[1]
        verdict, accept = decide_batch(log_ratio, width, uniform)
        if verdict >= 0.0:
            break
        look += 1
    counts[entry.FULL_PASS] += read >= total
    counts[entry.INVALID] += not np.isfinite(log_ratio)
    counts[entry.LOG_RATIO] = log_ratio
    counts[entry.LOG_RATIO_STD] = beta * total * error * np.sqrt(1.0 - n / total)
    return verdict, accept, float(read)


@dataclass(frozen=True, eq=False)
class ConfidenceMethod(Method):
    """The confidence sampler, as a step runs it; its record lacks the largest bounds."""

    settings: ConfidenceTest

    # Its probability is that of the look that decided, which the uniform number has chosen.
    returns_probability = False

    @property
    def guarantee(self) -> Guarantee:
        """The error that its looks control, and the condition."""
        given = (
            "by a scan of all rows at every update" if self.settings.scans else "given valid bounds"
        )
        return Guarantee(
            Promise.APPROXIMATE,
            f"probability delta that a decision differs from the full data's, {given}, not the "
            "bias of the posterior",
        )

    @property
    def reads_all_rows(self) -> bool:  # type: ignore[override]
        """With a scan."""
        return bool(self.settings.scans)

    @property
    def requirements(self) -> Requirements:
        """Derived bounds, or nothing with a scan."""
        return Requirements(derived_bounds=not self.settings.scans, in_memory=True)

    @property
    def key(self) -> str:
        """Digest of the settings."""
        return digest(np.array(self.settings[:-1]))

    def record(self, plan: Plan) -> ConfidenceTest:
        """Return the settings, with the largest bound of every table."""
        if not isinstance(plan.tables, Tables):
            return self.settings
        return self.settings._replace(largest=plan.tables.c.max(axis=1).astype(np.float64))


class ConfidenceMH(MinibatchStep):
    """Metropolis–Hastings decided by concentration bounds on growing batches.

    Guarantee: *approximate*. `delta` is the probability of a decision that differs from the
    full-data decision, at every pair of positions, given valid bounds. It does not control the bias
    of the posterior: see the page "Approximate methods". The statistic ``error_estimate`` is the
    part of `delta` that an update has spent.

    Parameters
    ----------
    vars : list of variables, optional
        Variables to update; by default all continuous ones. Other steps update the rest.
    batch_size : int
        Observations of the first look.
    gamma : float above 1
        Factor by which batches grow from look to look.
    p : float above 1
        Power in the levels of the looks, δ_k = (p - 1) δ/(p k^p), k = 2, 3, ...
    delta : float in (0, 1)
        δ.
    range : {"bounds", "scan"}
        Source of the range of the observations' differences: derived bounds, or a scan of all
        observations before each first batch, as in Seita et al. (2017), which ``n_obs`` and
        ``full_pass`` count.
    **settings
        Settings of all step methods: see :class:`SharedSettings`.

    Raises
    ------
    BoundsError
        If an observation has no bound, with ``range="bounds"``.
    BoundViolationError
        While sampling, if an observation exceeds its bound.

    References
    ----------
    Bardenet, Doucet, Holmes (2014), "Towards scaling up Markov chain Monte Carlo: an adaptive
    subsampling approach", ICML.
    Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for
    Metropolis-Hastings", UAI, doi:10.48550/arXiv.1610.06848.
    """

    name = "confidence_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 100,
        gamma: float = 2.0,
        p: float = 2.0,
        delta: float = 0.01,
        range: str = "bounds",  # noqa: A002 - the field's word for it
        **settings: Unpack[SharedSettings],
    ) -> None:
        choice("range", range, ("bounds", "scan"))
        test = confidence_test(batch_size, gamma, p, delta, scans=range == "scan")
        self._prepare(vars, ConfidenceMethod(test), **settings)
