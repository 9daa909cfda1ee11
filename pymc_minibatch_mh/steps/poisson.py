"""Deciding by a Poisson number of rows, with bounds derived from the model or given."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_minibatch_mh.acceptance import poisson
from pymc_minibatch_mh.bounds.tables import BoundsPass, Tables
from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.errors import BoundsError, SettingError
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.expansion.taylor import Calibration
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.kernels.poisson import thin_rows
from pymc_minibatch_mh.kernels.surrogate import Surrogate
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps.audit import sizes_of_moves
from pymc_minibatch_mh.steps.decision import Decision

#: Seconds that a row takes where the data fit a cache, and where they do not; that an update
#: takes without its rows, and PyMC's loop around a draw.
CACHED_ROW, ROW, UPDATE, LOOP = 0.2e-6, 0.5e-6, 1.2e-6, 17e-6
#: Size of data in bytes up to which a cache holds them.
CACHE = 2**24
#: Largest χ before rows have been seen.
USUAL_CHI = 1.0
#: Share of what is read in one pass that typical moves read at most with the χ of a start: some
#: moves are larger.
START_SHARE = 0.5
#: Rows to see before their ratios are believed.
ENOUGH_ROWS = 50
#: Share of all rows from which on one pass in order is as quick as as many random reads.
PASS_SHARE = 0.5

GivenBounds = Bounds | Callable[[dict[str, np.ndarray]], Bounds]


@dataclass(frozen=True, eq=False)
class PoissonDecision(Decision):
    """A Poisson-minibatch test.

    Parameters
    ----------
    form
        "best", "paper" or "factorized".
    chi
        χ, or None to choose it in warm-up.
    delayed_acceptance
        Whether the cheap part decides first.
    bounds
        None to derive them, or the user's.
    tolerates_violations
        Whether to go on after a violated bound, marking the trace.
    """

    form: str
    chi: float | None
    delayed_acceptance: bool
    bounds: GivenBounds | None
    tolerates_violations: bool
    returns_probability: bool = True

    @property
    def walk_target(self) -> float:
        """That of exact Metropolis–Hastings, to which little noise is added."""
        return 0.234

    @property
    def needs_calibration(self) -> bool:
        """Never: bounds say how many rows are read."""
        return False

    @property
    def takes_derived_bounds(self) -> bool:
        """Unless the user gave others."""
        return self.bounds is None

    @property
    def key(self) -> str:
        """The settings, and whose the bounds are."""
        own = self.form, self.chi, self.delayed_acceptance, self.tolerates_violations
        return repr((*own, "derived" if self.takes_derived_bounds else "given"))

    @property
    def test(self) -> Any:
        """Thin a Poisson number of rows."""
        return thin_rows

    def roles(self, tables: Tables | None) -> tuple[Any, ...]:
        """Return rate, thinning, acceptance and the metric of given bounds."""
        assert tables is not None
        return poisson.rate, poisson.thin, poisson.accept_probability, tables.compiled_metric

    def tables(self, target: Target, surrogate: Surrogate) -> Tables:
        """Bound all rows around a centre, or ask the user to.

        Raises
        ------
        BoundsError
            If a row has no bound.
        SettingError
            If a user's bounds cannot be meant.
        """
        given = self.bounds
        if given is None:
            functions = target.row_functions
            if isinstance(functions, BoundsError):
                raise functions
            support = target.split.lower, target.split.upper
            return BoundsPass(functions, surrogate, support).tables()
        if not isinstance(given, Bounds):
            given = given(target.split.unravel(surrogate.centre, {}))
        if not isinstance(given, Bounds):
            raise SettingError(
                f"bounds= is a function that returned a {type(given).__name__}. Return "
                "Bounds(c, metric) for the centre that it is called with."
            )
        report.tell_of_unverified_bounds(", ".join(repr(term.name) for term in target.split.terms))
        return given.tables(target.source.n_rows)

    def settings_for(
        self,
        target: Target,
        surrogate: Surrogate,
        calibration: Calibration | None,
        tables: Tables | None,
        seed: int,
    ) -> np.ndarray:
        """Pack the settings; an automatic χ starts where typical moves do not read all rows."""
        settings = poisson.settings(
            self.form,
            self.chi or 0.0,
            delayed_acceptance=self.delayed_acceptance,
            max_rate=PASS_SHARE * target.source.n_rows,
            tolerate=self.tolerates_violations,
        )
        if self.chi is None:
            assert tables is not None
            few = START_SHARE * settings[poisson.MAX_RATE]
            sizes = sizes_of_moves(surrogate, tables, np.random.default_rng(seed))
            largest = [poisson.largest_chi(size, few) for size in sizes]
            settings[poisson.CHI] = min([USUAL_CHI, *largest])
        return settings

    def require_subsampling(self, surrogate: Surrogate, tables: Tables | None, seed: int) -> None:
        """Refuse a χ that alone makes the Poisson means of typical moves too large.

        Raises
        ------
        SettingError
            If each of them is above what is read in one pass.
        """
        assert tables is not None
        rng = np.random.default_rng(seed)
        sizes, limit = sizes_of_moves(surrogate, tables, rng), PASS_SHARE * tables.c.shape[1]
        if not self.chi or not sizes or not max(sizes) <= limit:
            return
        if min(size * (1.0 + self.chi * size) for size in sizes) > limit:
            raise SettingError(
                f"chi={self.chi:g} makes the Poisson means of all moves that were tried exceed "
                f"{limit:,.0f}, half of the rows, so that every update would read all rows. Use "
                "chi='auto', or a smaller number."
            )

    def adapt(
        self, settings: np.ndarray, sums: np.ndarray, target: Target, updates_per_draw: int
    ) -> None:
        """Choose χ from the sizes of moves and the ratios of rows that were seen."""
        if self.chi is None and sums[entry.N_SIZES] > 0.0 and sums[entry.N_RATIOS] > ENOUGH_ROWS:
            size = sums[entry.SIZES] / sums[entry.N_SIZES]
            ratio = min(sums[entry.SQUARED_RATIOS] / sums[entry.N_RATIOS], 1.0)
            row = CACHED_ROW if target.source.nbytes < CACHE else ROW
            cost = row / (UPDATE + LOOP / updates_per_draw)
            limit = settings[poisson.MAX_RATE]
            settings[poisson.CHI] = poisson.best_chi([size], ratio, cost, limit)
