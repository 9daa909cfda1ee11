"""Many posteriors of one model by one step: ranks of what the data were drawn from."""

from dataclasses import dataclass, replace

import cloudpickle
import numpy as np
from scipy.stats import binom, chi2, norm

from helpers.altered import with_program
from pymc_minibatch_mh.chain.program import SamplerSpec

#: Draws of warm-up, draws kept, and updates from one draw to the next.
TUNE, KEPT, UPDATES = 150, 99, 10
#: Ranks to a bin of the chi-square test, and ranks outside the central interval at either end.
BIN, TAIL = 5, 5
INTERVAL = 0.9


def copy_of(step):
    """Return a copy that shares no array with its model, so that its rows may be overwritten."""
    return cloudpickle.loads(cloudpickle.dumps(step))


def renew(step, data, change_tables=lambda tables: tables):
    """Write other observations over those of a step; return one prepared as on construction.

    This spares the compilation, which the observations do not enter.
    """
    for column in step.target.source.columns:
        if column.name in data:
            column.values[...] = data[column.name]
    prepared = step.plan.around(step._default_start)
    if prepared.tables is not None:
        tables = change_tables(prepared.tables)
        prepared = replace(prepared, tables=tables, violation=None).completed()
    own = step.program
    other = with_program(step, SamplerSpec(prepared, own.sampler, own.updates_per_draw))
    other.chain.handle_violation(prepared.violation or "")
    return other


def posterior_draws(step, rng):
    """Return thinned draws of a chain, shape (KEPT, d), and the share of full passes in them."""
    point = step.gaussian_draw(rng, 1.5)
    step.setup_chain(rng, TUNE, KEPT)
    for _ in range(TUNE):
        point, _ = step.step(point)
    step.stop_tuning()
    draws, full = [], 0
    for _ in range(KEPT):
        point, (stats,) = step.step(point)
        draws.append(step.plan.described.factorization.ravel_values(point))
        full += stats["full_pass"]
    return np.array(draws), full / (KEPT * step.updates_per_draw)


def two_sided(below, above):
    """Return p-values from the chances of as small and of as large a statistic."""
    return np.minimum(1.0, 2.0 * np.minimum(below, above))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Ranks of the truth among the `KEPT` draws, shape (replications, quantities).

    Quantities are those of the simulator, log-prior and log-likelihood. The autocorrelation is that
    of successive draws, the largest over quantities; `full_passes` is a share of the updates.
    """

    ranks: np.ndarray
    names: tuple[str, ...]
    autocorrelation: float
    full_passes: float

    @property
    def coverage(self):
        """Share of the central intervals that hold the truth, for each quantity."""
        inside = (self.ranks >= TAIL) & (self.ranks <= KEPT - TAIL)
        return inside.mean(0)

    @property
    def p_values(self):
        """P-values of the tests of uniform ranks, shape (tests, quantities).

        The shape by a chi-square test of bins, location and width by the mean and the mean square
        of normal scores, and the share in the central interval by a binomial test.
        """
        n, quantities = self.ranks.shape
        bins = (KEPT + 1) // BIN
        counts = [np.bincount(self.ranks[:, j] // BIN, minlength=bins) for j in range(quantities)]
        shape = chi2.sf(((np.array(counts) - n / bins) ** 2).sum(1) / (n / bins), bins - 1)
        scores = norm.ppf((np.arange(KEPT + 1) + 0.5) / (KEPT + 1))
        own, variance = scores[self.ranks], (scores**2).mean()
        location = 2.0 * norm.sf(np.abs(own.mean(0)) / np.sqrt(variance / n))
        squares = (own**2).sum(0) / variance
        width = two_sided(chi2.cdf(squares, n), chi2.sf(squares, n))
        covered = np.rint(n * self.coverage)
        interval = two_sided(binom.cdf(covered, n, INTERVAL), binom.sf(covered - 1, n, INTERVAL))
        return np.array([shape, location, width, interval])

    @property
    def p_value(self):
        """Smallest p-value of all tests, corrected for their number by Bonferroni."""
        return min(1.0, float(self.p_values.min()) * self.p_values.size)


def calibrate(simulator, step, replications, seed, renew=renew):
    """Draw parameters and data, sample their posterior, and rank the parameters in it.

    `renew` returns a step for other data, given the step before.
    """
    ranks, correlations, full = [], [], []
    for k in range(replications):
        rng = np.random.default_rng([seed, k])
        truth = simulator.prior(rng)
        data = simulator.observe(truth, rng)
        step = renew(step, data)
        draws, full_share = posterior_draws(step, rng)
        together = np.vstack([truth, draws])
        densities = simulator.log_prior(together), simulator.log_likelihood(together, data)
        together = np.column_stack([simulator.quantities(together), *densities])
        ranks.append((together[1:] < together[0]).sum(0))
        centred = together[1:] - together[1:].mean(0)
        correlations.append((centred[1:] * centred[:-1]).sum(0) / (centred**2).sum(0))
        full.append(full_share)
    names = (*simulator.names, "log-prior", "log-likelihood")
    correlation = float(np.mean(correlations, axis=0).max())
    return Calibration(np.array(ranks), names, correlation, float(np.mean(full)))
