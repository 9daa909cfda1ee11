"""Custom proposals in compiled updates, and a statistical check of their log-ratio.

The check applies a few full-data Metropolis–Hastings updates to independent draws from a known
Gaussian. With a correct log-ratio the results are again such draws, and their moments have known
standard errors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pymc_minibatch_mh.checks import as_floats, check_row_count, is_number
from pymc_minibatch_mh.data import code_digest
from pymc_minibatch_mh.errors import MinibatchError, SettingError
from pymc_minibatch_mh.native.bound_tables import no_tables
from pymc_minibatch_mh.native.library import LaidOut, Status, function
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.posterior import Posterior, Reference
from pymc_minibatch_mh.native.run import linked
from pymc_minibatch_mh.proposals.base import Proposal, Tallies
from pymc_minibatch_mh.proposals.user_functions import (
    CALL_SIGNATURE,
    MOVE_SIGNATURE,
    address_of,
    call_move,
    compiled_once,
    take_exception,
)

#: Probability that the check fails a correct proposal.
FALSE_ALARM = 1e-7
#: Number of independent walks in the check, and in the pilot that determines their length.
WALKS, PILOT_WALKS = 20_000, 500
#: Number of updates between two looks of the pilot; maximum number of updates; and mean squared
#: distance, in standard deviations, at which a start counts as forgotten (2 if independent).
UPDATES_PER_LOOK, MAX_UPDATES, MIN_SQUARED_DISTANCE = 5, 1_000, 1.0
#: Number of observations whose densities multiply to the Gaussian, and maximum batch size.
ROWS, MAX_BATCH = 80, 20
#: Correlation of neighbouring coordinates; errors added to the metric: shift in sd, scale factor.
CORRELATION, SHIFT, WIDER = 0.6, 0.2, 1.15


class GaussianRows(NamedTuple):
    """Artificial observations whose densities multiply to a Gaussian: ``mh_rows``."""

    size: int
    term_starts: np.ndarray
    #: Address of the means, shape (ROWS, d); address of the precision of each observation; and d.
    context: np.ndarray
    n_terms: int = 1
    terms: None = None
    differences: None = None
    derivatives: str = "mh_derivatives_of_gaussian"
    groups: None = None


class ProposalCheck:
    """Check of a custom proposal on a Gaussian."""

    def __init__(self, name: str, record: Any, scale: float, rng: np.random.Generator) -> None:
        self._name, self._record, self._rng = name, record, rng
        size = record.position.size
        places = np.arange(size)
        self._sd = scale * np.linspace(0.7, 1.3, size)
        covariance = CORRELATION ** np.abs(places[:, None] - places) * np.outer(self._sd, self._sd)
        self._factor, self._mean = np.linalg.cholesky(covariance), scale * (1.0 + places % 2)
        self._whitener = np.linalg.inv(self._factor)
        noise = rng.standard_normal((ROWS, size))
        # This reference keeps the observations alive, because the context only has their addresses.
        self._rows = self._mean + (noise - noise.mean(axis=0)) @ self._factor.T
        self._precision = np.linalg.inv(covariance) / ROWS
        self._chain = self._gaussian_chain()

    def _gaussian_chain(self) -> LaidOut:
        """Chain with the custom proposal and an inexact Gaussian approximation."""
        size, addresses = self._sd.size, (self._rows.ctypes.data, self._precision.ctypes.data)
        rows = GaussianRows(size, np.array([0, ROWS]), np.array([*addresses, size]))
        metric = self._mean + SHIFT * self._sd, WIDER * self._factor, self._whitener / WIDER
        reference = Reference(*metric, np.zeros(size), np.zeros((size, size)), 0, 1.0)
        posterior = Posterior(None, rows, reference, no_tables())
        move = Move(*np.zeros((5, size)))
        return linked(posterior, self._record, None, self._rng, move)

    def largest(self) -> float:
        """Largest error of a moment in standard errors; SettingError for a wrong log-ratio."""
        updates = self._pilot_updates()
        off, used = self._moment_distances(updates, 1.0)
        what = max(off, key=lambda name: abs(off[name]))
        if abs(off[what]) <= self._rejection_limit(off):
            return abs(off[what])
        raise SettingError(
            f"{self._name} returns a wrong log-ratio: {updates} updates from {WALKS:,} exact "
            f"draws of a Gaussian leave {what} off by {off[what]:+.1f} standard errors, but a "
            f"correct one exceeds {self._rejection_limit(off):.1f} in only one check of "
            f"{round(1 / FALSE_ALARM):,}. {self._guess_cause(updates, used)}"
        )

    def _rejection_limit(self, off: dict[str, float]) -> float:
        return NormalDist().inv_cdf(1.0 - FALSE_ALARM / (2 * len(off)))

    def _guess_cause(self, updates: int, used: int) -> str:
        if not used:
            return (
                "It always returned 0, which is correct for a symmetric proposal only. Return "
                "log q(θ|θ') - log q(θ'|θ), the backward minus the forward density."
            )
        turned, _ = self._moment_distances(updates, -1.0)
        if max(map(abs, turned.values())) <= self._rejection_limit(turned):
            return (
                "It is correct with the opposite sign: return log q(θ|θ') - log q(θ'|θ), the "
                "backward minus the forward density."
            )
        return (
            "It may lack a density, a Jacobian or a choice that depends on the position, or the "
            "proposal may depend on earlier positions."
        )

    def _walk_positions(self, positions: np.ndarray, updates: int, sign: float) -> int:
        gaussian, used = (self._mean, self._whitener), np.zeros(1, np.int64)
        status = function("mh_walk_on_gaussian")(
            self._chain, *gaussian, len(positions), positions, updates, sign, used
        )
        require_proposed(self._name, self._record, status)
        return int(used[0])

    def _draw_positions(self, count: int) -> np.ndarray:
        noise = self._rng.standard_normal((count, self._sd.size))
        return self._mean + noise @ self._factor.T

    def _pilot_updates(self) -> int:
        start = self._draw_positions(PILOT_WALKS)
        positions = start.copy()
        for updates in range(UPDATES_PER_LOOK, MAX_UPDATES + 1, UPDATES_PER_LOOK):
            self._walk_positions(positions, UPDATES_PER_LOOK, 1.0)
            moved = np.mean(((positions - start) @ self._whitener.T) ** 2)
            if moved >= MIN_SQUARED_DISTANCE:
                return updates
        raise SettingError(
            f"{self._name} moves too slowly on this Gaussian to be checked: {MAX_UPDATES:,} "
            f"updates move it by {np.sqrt(moved):.2g} standard deviations. Pass scale=, about the "
            "standard deviation of the posterior for which the proposal and its state were made. "
            "If you did, a wrong log-ratio may reject nearly every proposal."
        )

    def _moment_distances(self, updates: int, sign: float) -> tuple[dict[str, float], int]:
        """Distance of each moment in standard errors, and the number of log-ratios other than 0."""
        positions = self._draw_positions(WALKS)
        used = self._walk_positions(positions, updates, sign)
        deviations, root = positions - self._mean, np.sqrt(WALKS)
        standardized, white = deviations / self._sd, deviations @ self._whitener.T
        off = {}
        for j in range(self._sd.size):
            off[f"the mean of coordinate {j}"] = root * standardized[:, j].mean()
            spread = (standardized[:, j] ** 2).mean() - 1.0
            off[f"the variance of coordinate {j}"] = root * spread / np.sqrt(2.0)
            for k in range(j):
                product = root * (white[:, j] * white[:, k]).mean()
                off[f"the correlation of coordinates {k} and {j}"] = product
        return {name: float(value) for name, value in off.items()}, used


class CustomState(NamedTuple):
    """State of a custom proposal in a chain."""

    state: np.ndarray


class LinkedCustom(NamedTuple):
    """State for compiled updates: ``mh_custom_proposal``."""

    LAYOUT, propose = "mh_custom_proposal", "mh_propose_custom"  # type: ignore[misc]

    #: Addresses of the shim and of the user's function, and buffer for a raised exception.
    call: int
    function: int
    kept: np.ndarray
    batch_size: int
    state: np.ndarray
    #: Buffer for the position that the function receives, shape (d,).
    position: np.ndarray


def link_function(function: Any, state: np.ndarray, batch_size: int, size: int) -> LinkedCustom:
    """Record with the address of a compiled function, which the caller keeps alive."""
    move = address_of(function, MOVE_SIGNATURE, raises=True)
    room = np.zeros(1, np.int64), batch_size, state, np.zeros(size)
    return LinkedCustom(address_of(call_move, CALL_SIGNATURE), move, *room)


def require_proposed(name: str, record: LinkedCustom, status: int) -> None:
    """Raise MinibatchError if a user's function raised or changed its `position` argument."""
    if status == Status.MOVE_RAISED:
        error = take_exception(record.kept)
        raise MinibatchError(
            f"{name} raised {type(error).__name__}: {error}. It has to propose from every position "
            "of a chain. Let it return np.nan if it has no proposal: that is rejected and counted "
            "in the statistic invalid."
        ) from error
    if status == Status.MOVE_EDITED:
        raise MinibatchError(
            f"{name} changed `position`, the current state of the chain. Write the proposal to "
            "`new` only, and copy `position` before you change it."
        )


@dataclass(frozen=True, eq=False)
class CustomProposal(Proposal):
    """Custom proposal, written in Python and compiled by numba.

    Guarantee: the step's, if the returned number is the log-ratio of the proposal densities. A
    wrong one biases the draws, and neither the step nor :func:`audit` notices; :meth:`check` does.
    A proposal that is incomplete or not finite, or has a log-ratio that is not a number, is
    rejected and counted in ``invalid``. A function that raises, or changes `position` in place,
    ends sampling with a ``MinibatchError``.

    Parameters
    ----------
    move
        ``move(position, new, rng, state, metric, rows) -> float``. Writes a proposal θ' to `new`,
        float64 of shape (d,) like `position`, on the unconstrained scale, and returns
        ``log q(θ|θ') - log q(θ'|θ)``, 0 for a symmetric proposal. `rng` is the chain's generator,
        the only source of randomness; `state` is the chain's copy of `state` below; `metric` has
        ``centre`` θ̂, ``factor`` L and ``whitener`` L⁻¹ with L Lᵀ about the posterior covariance;
        `rows` is a batch for :func:`rows_gradient`, drawn before the position is known, for both
        directions.
    state
        Numbers that the proposal keeps in a chain, such as its scale. Only `adapt` may change them,
        in warm-up: a proposal that depends on earlier positions makes no Markov chain.
    batch_size
        Size of the batch; 0 for none.
    adapt
        ``adapt(state, acceptance)``, called after each window of warm-up with the acceptance rate;
        it changes `state` in place. None leaves `state` as it is.

    Raises
    ------
    SettingError
        If numba cannot compile the function.
    """

    move: Callable[..., float]
    state: Sequence[float] = ()
    batch_size: int = 0
    adapt: Callable[[np.ndarray, float], None] | None = None
    _compiled: Any = field(init=False, repr=False)
    # The digest is taken at compilation, when numba freezes the globals of the function.
    _digest: str = field(init=False, repr=False)
    #: No slice proposals: they could leave the support, which may be a manifold or points.
    moves_without_rows = False

    def __post_init__(self) -> None:
        check_row_count("batch_size", self.batch_size)
        adapt: Any = self.adapt
        if adapt is not None and not callable(adapt):
            raise SettingError(
                f"adapt={adapt!r} is not a function. Give a function of (state, acceptance), or "
                "leave it out."
            )
        object.__setattr__(self, "state", as_floats("state", self.state))
        plain = getattr(self.move, "py_func", self.move)
        words = f"CustomProposal({getattr(plain, '__name__', plain)!r})"
        way = (
            "as a function of (position, new, rng, state, metric, rows) that returns a number, "
            "with NumPy operations and loops only."
        )
        build = njit(MOVE_SIGNATURE, nogil=True, error_model="numpy")
        function = compiled_once(words, way, plain, build)
        object.__setattr__(self, "move", plain)
        object.__setattr__(self, "_digest", code_digest(plain))
        object.__setattr__(self, "_compiled", function)

    def __repr__(self) -> str:
        """Identity of this proposal, equal in every process."""
        adapt = "" if self.adapt is None else f", adapted by {code_digest(self.adapt)}"
        move = f"{self.move.__name__} {self._digest}"
        return f"CustomProposal({move}, {list(self.state)}, {self.batch_size}{adapt})"

    def __reduce__(self) -> tuple:
        return CustomProposal, (self.move, self.state, self.batch_size, self.adapt)

    @property
    def rests_on(self) -> str:
        """Claim that the log-ratio is correct."""
        return f"the log-ratio of {self._name} is correct, which is unverified"

    @property
    def _name(self) -> str:
        return f"CustomProposal({self.move.__name__!r})"

    def check(self, size: int = 3, *, scale: float = 1.0, random_seed: int | None = None) -> float:
        """Check the log-ratio: updates with the proposal have to preserve a correlated Gaussian.

        Full-data updates start from exact draws, and the means, variances and correlations of all
        coordinates are compared with the Gaussian. A correct log-ratio fails in one check of ten
        million; a wrong one fails if it shifts a moment by about 5%. The check uses the initial
        `state` and batches of at most 20 observations. The proposal needs a density in `size`
        dimensions, so it may not put mass on points or manifolds.

        Parameters
        ----------
        size
            Dimensions of the Gaussian.
        scale
            Standard deviations for which the proposal and its state were made, about.
        random_seed
            Seed of the draws.

        Returns
        -------
        float
            Largest distance of a moment from its true value, in standard errors.

        Raises
        ------
        SettingError
            If the log-ratio is wrong, with the moment, its distance and a likely reason; or if the
            proposal moves too slowly for a check.
        MinibatchError
            If the function raises, or changes its position.
        """
        dimensions: Any = size
        if not isinstance(dimensions, int) or isinstance(dimensions, bool) or dimensions < 1:
            raise SettingError(
                f"size={size!r} is not a number of dimensions. Give an integer of 1 or more."
            )
        if not is_number(scale) or not 0.0 < scale < np.inf:
            raise SettingError(
                f"scale={scale!r} is not a standard deviation. Give a number above 0."
            )
        drawn = min(self.batch_size, MAX_BATCH)
        state = np.array(self.state, dtype=np.float64)
        record = link_function(self._compiled, state, drawn, size)
        rng = np.random.default_rng(random_seed)
        return ProposalCheck(self._name, record, float(scale), rng).largest()

    @property
    def draws_rows(self) -> bool:
        """Whether the proposal receives a batch."""
        return self.batch_size > 0

    @property
    def in_own_terms(self) -> bool:
        """True: the function receives the model's variables."""
        return True

    def record(self, size: int) -> CustomState:
        """Initial state of a chain."""
        return CustomState(np.array(self.state, dtype=np.float64))

    def adapted(
        self, record: CustomState, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> CustomState:
        """Let the user's function adapt the state."""
        if self.adapt is None or not window["tried"][0] > 0.0:
            return record
        state = record.state.copy()
        self.adapt(state, float(window["accept"][0] / window["tried"][0]))
        return CustomState(np.ascontiguousarray(state, dtype=np.float64))

    def linked(self, record: CustomState, plan: Any) -> LinkedCustom:
        """Linked record; SettingError if observations depend on other steps' variables."""
        factorization = plan.target.factorization
        if factorization.first > 0:
            raise SettingError(
                f"{factorization.blocks[0].name!r} belongs to another step, but CustomProposal "
                "proposes all coordinates. Let this step update it as well, or use RandomWalk()."
            )
        return link_function(self._compiled, record.state, self.batch_size, factorization.size)

    def require_proposed(self, record: Any, status: int) -> None:
        """Raise MinibatchError if the function raised or changed its position."""
        require_proposed(self._name, record, status)

    def scaling(self, record: CustomState) -> float:
        """First number of the state; NaN if the state is empty."""
        return float(record.state[0]) if record.state.size else float("nan")
