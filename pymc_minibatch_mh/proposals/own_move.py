"""Custom moves, run inside the compiled update, and the check of their log-ratio.

The check moves independent draws from a known Gaussian by a few Metropolis–Hastings updates on all
rows. With a right log-ratio they still are such draws, with known standard errors of their moments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.checks import as_floats, is_number, rows
from pymc_minibatch_mh.data import code_digest
from pymc_minibatch_mh.data.arrays import load
from pymc_minibatch_mh.errors import MinibatchError, SettingError
from pymc_minibatch_mh.kernels.batch import MOVE, MOVE_SIGNATURE, Metric, draw_batch
from pymc_minibatch_mh.kernels.handle import address_of, call_keeping, take_kept
from pymc_minibatch_mh.kernels.moves import Move
from pymc_minibatch_mh.kernels.posterior import Reference, RowSpace, whitened_norm
from pymc_minibatch_mh.kernels.roles import (
    DERIVATIVES_SIGNATURE,
    TALLY_ACCEPT,
    TRIED,
    propose,
    role_of,
)
from pymc_minibatch_mh.kernels.vectors import copy_to
from pymc_minibatch_mh.proposals.base import Proposal, Tallies

#: Chance that the check fails a right move.
LEVEL = 1e-7
#: Independent walks of the check, and of the pilot that finds how long they have to be.
WALKS, PILOT_WALKS = 20_000, 500
#: Updates between two looks of the pilot, and the most of all; mean squared distance from the
#: start, in standard deviations, at which walks have forgotten enough of it. Independent: 2.
UPDATES, MOST_UPDATES, FORGOTTEN = 5, 1_000, 1.0
#: Rows that the Gaussian's density is the product of, and the most that a batch has of them.
ROWS, MOST_DRAWN = 80, 20
#: Neighbouring coordinates' correlation; by how much the metric is off, in standard deviations.
CORRELATION, SHIFT, WIDER = 0.6, 0.2, 1.15


class Gaussian(NamedTuple):
    """A Gaussian as moves know a posterior."""

    mean: np.ndarray
    #: L and L⁻¹, with L Lᵀ its covariance.
    factor: np.ndarray
    whitener: np.ndarray
    #: An approximation of it, for the move, and its rows.
    reference: Reference
    space: RowSpace


@compiled(DERIVATIVES_SIGNATURE)
def derivatives_of_rows(position, rows, ends, context, sums, hessian):
    """Add up -(θ - m_i)ᵀ P (θ - m_i)/2 of rows, and gradients: see ``DERIVATIVES``."""
    size = position.size
    for row in rows:
        for j in range(size):
            slope = 0.0
            for k in range(size):
                centre = load(context[0] + 8 * (row * size + k), np.float64)
                slope -= load(context[1] + 8 * (j * size + k), np.float64) * (position[k] - centre)
            centre = load(context[0] + 8 * (row * size + j), np.float64)
            sums[0] += 0.5 * slope * (position[j] - centre)
            sums[1 + j] += slope


@compiled()
def _walk(own, gaussian, positions, updates, sign, rng):
    """Make updates from each of the positions; return how many log-ratios were not zero."""
    new, state, used = np.empty(positions.shape[1]), own.state.copy(), 0
    for k in range(len(positions)):
        move = Move(positions[k], new, new, new, new)
        copy_to(own.state, state)
        for _ in range(updates):
            log_q, component = propose(own, move, gaussian, rng)
            if component < 0:
                return used
            used += log_q != 0.0
            here = whitened_norm(gaussian.whitener, move.position, gaussian.mean)
            there = whitened_norm(gaussian.whitener, new, gaussian.mean)
            if np.log(rng.random()) < 0.5 * (here * here - there * there) + sign * log_q:
                copy_to(positions[k], new)
    return used


class MoveCheck:
    """The check of one move on a Gaussian; `require_proposed` raises the move's exception."""

    def __init__(
        self,
        name: str,
        record: Any,
        require_proposed: Callable[[Any], None],
        scale: float,
        rng: np.random.Generator,
    ) -> None:
        self._name, self._record, self._require = name, record, require_proposed
        self._rng = rng
        size = record.position.size
        places = np.arange(size)
        self._sd = scale * np.linspace(0.7, 1.3, size)
        covariance = CORRELATION ** np.abs(places[:, None] - places) * np.outer(self._sd, self._sd)
        factor, mean = np.linalg.cholesky(covariance), scale * (1.0 + places % 2)
        noise = rng.standard_normal((ROWS, size))
        # The source of rows is kept: the context has its addresses.
        self._rows = mean + (noise - noise.mean(axis=0)) @ factor.T
        self._precision = np.linalg.inv(covariance) / ROWS
        context = np.array([self._rows.ctypes.data, self._precision.ctypes.data])
        nothing, whitener = (np.zeros(size), np.zeros((size, size))), np.linalg.inv(factor)
        metric = mean + SHIFT * self._sd, WIDER * factor, whitener / WIDER
        space = RowSpace(np.array([0, ROWS]), context)
        self._gaussian = Gaussian(
            mean, factor, whitener, Reference(*metric, *nothing, 0, 1.0), space
        )

    def largest(self) -> float:
        """Return the largest distance of a moment in standard errors; SettingError if it is off."""
        updates = self._updates()
        off, used = self._distances(updates, 1.0)
        what = max(off, key=lambda name: abs(off[name]))
        if abs(off[what]) <= self._limit(off):
            return abs(off[what])
        raise SettingError(
            f"{self._name} returns a wrong log-ratio: {updates} updates from {WALKS:,} exact "
            f"draws of a Gaussian leave {what} off by {off[what]:+.1f} standard errors, but a "
            f"correct one exceeds {self._limit(off):.1f} in only one check of "
            f"{round(1 / LEVEL):,}. {self._guess(updates, used)}"
        )

    def _limit(self, off: dict[str, float]) -> float:
        return NormalDist().inv_cdf(1.0 - LEVEL / (2 * len(off)))

    def _guess(self, updates: int, used: int) -> str:
        if not used:
            return (
                "It always returned 0, which is correct for a symmetric proposal only. Return "
                "log q(θ|θ') - log q(θ'|θ), the backward minus the forward density."
            )
        turned, _ = self._distances(updates, -1.0)
        if max(map(abs, turned.values())) <= self._limit(turned):
            return (
                "It is correct with the opposite sign: return log q(θ|θ') - log q(θ'|θ), the "
                "backward minus the forward density."
            )
        return (
            "It may lack a density, a Jacobian or a choice that depends on the position, or the "
            "proposal may depend on earlier positions."
        )

    def _walked(self, positions: np.ndarray, updates: int, sign: float) -> int:
        used = _walk(self._record, self._gaussian, positions, updates, sign, self._rng)
        self._require(self._record)
        return int(used)

    def _drawn(self, count: int) -> np.ndarray:
        noise = self._rng.standard_normal((count, self._sd.size))
        return self._gaussian.mean + noise @ self._gaussian.factor.T

    def _updates(self) -> int:
        start = self._drawn(PILOT_WALKS)
        positions = start.copy()
        for updates in range(UPDATES, MOST_UPDATES + 1, UPDATES):
            self._walked(positions, UPDATES, 1.0)
            moved = np.mean(((positions - start) @ self._gaussian.whitener.T) ** 2)
            if moved >= FORGOTTEN:
                return updates
        raise SettingError(
            f"{self._name} moves too slowly on this Gaussian to be checked: {MOST_UPDATES:,} "
            f"updates move it by {np.sqrt(moved):.2g} standard deviations. Pass scale=, about the "
            "standard deviation of the posterior for which the proposal and its state were made. "
            "If you did, a wrong log-ratio may reject nearly every proposal."
        )

    def _distances(self, updates: int, sign: float) -> tuple[dict[str, float], int]:
        """Return the distance of each moment in standard errors, and how many ratios were not 0."""
        positions = self._drawn(WALKS)
        used = self._walked(positions, updates, sign)
        deviations, root = positions - self._gaussian.mean, np.sqrt(WALKS)
        own, white = deviations / self._sd, deviations @ self._gaussian.whitener.T
        off = {}
        for j in range(self._sd.size):
            off[f"the mean of coordinate {j}"] = root * own[:, j].mean()
            spread = (own[:, j] ** 2).mean() - 1.0
            off[f"the variance of coordinate {j}"] = root * spread / np.sqrt(2.0)
            for k in range(j):
                product = root * (white[:, j] * white[:, k]).mean()
                off[f"the correlation of coordinates {k} and {j}"] = product
        return {name: float(value) for name, value in off.items()}, used


#: Entries of the faults of a move: the exception that it raised; whether it edited its position.
RAISED, EDITED, N_FAULTS = range(3)
#: Function of a user by its identity and its digest -> the same compiled, while a move has it.
_COMPILED: WeakValueDictionary[tuple[int, str], Any] = WeakValueDictionary()


class OwnMoveState(NamedTuple):
    """The state of a move in a chain."""

    state: np.ndarray


class LinkedOwnMove(NamedTuple):
    """The same for compiled updates, with addresses, the `position` handed over, and `faults`."""

    move: int
    derivatives: int
    batch_size: int
    state: np.ndarray
    position: np.ndarray
    faults: np.ndarray


@role_of(LinkedOwnMove, "propose")
@compiled(inlined=True)
def propose_own(own, move, posterior, rng):
    """Draw rows, then let the user's function propose: see :func:`roles.propose`."""
    reference = posterior.reference
    # Before a position is looked at: the batch must know nothing of it.
    rows = draw_batch(rng, own.batch_size, own.derivatives, posterior)
    metric = Metric(reference.centre, reference.factor, reference.whitener)
    copy_to(own.position, move.position)
    # Coordinates that the function does not write are no proposal.
    for i in range(move.new.size):
        move.new[i] = np.nan
    handed = own.position, move.new, rng, own.state, metric, rows
    log_q = call_keeping(own.move, MOVE, handed, own.faults)
    for i in range(move.position.size):
        if own.position[i] != move.position[i]:
            own.faults[EDITED] = 1
    return log_q, (-1 if own.faults[RAISED] != 0 or own.faults[EDITED] != 0 else 0)


@dataclass(frozen=True, eq=False)
class OwnMove(Proposal):
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
    # Taken now: numba has frozen the values that the function uses.
    _digest: str = field(init=False, repr=False)
    #: Its support is not known, such as a manifold, or points with a mass of their own.
    moves_without_rows = False

    def __post_init__(self) -> None:
        """Compile the move."""
        rows("batch_size", self.batch_size)
        adapt: Any = self.adapt
        if adapt is not None and not callable(adapt):
            raise SettingError(
                f"adapt={adapt!r} is not a function. Give a function of (state, acceptance), or "
                "leave it out."
            )
        object.__setattr__(self, "state", as_floats("state", self.state))
        plain = getattr(self.move, "py_func", self.move)
        # The digest tells a function whose globals have changed since from itself.
        known = id(plain), code_digest(plain)
        try:
            function = _COMPILED.get(known)
            if function is None:
                function = njit(MOVE_SIGNATURE, nogil=True, error_model="numpy")(plain)
        except (NumbaError, TypeError) as error:
            raise SettingError(
                f"OwnMove({getattr(plain, '__name__', plain)!r}) cannot be compiled by numba: "
                f"{error}. Write it as a function of (position, new, rng, state, metric, rows) "
                "that returns a number, with NumPy operations and loops only."
            ) from error
        _COMPILED[known] = function
        object.__setattr__(self, "move", plain)
        object.__setattr__(self, "_digest", known[1])
        object.__setattr__(self, "_compiled", function)

    def __repr__(self) -> str:
        """Return the identity of this move, in every process."""
        adapt = "" if self.adapt is None else f", adapted by {code_digest(self.adapt)}"
        move = f"{self.move.__name__} {self._digest}"
        return f"OwnMove({move}, {list(self.state)}, {self.batch_size}{adapt})"

    def __reduce__(self) -> tuple:
        """Leave out compiled functions."""
        return OwnMove, (self.move, self.state, self.batch_size, self.adapt)

    @property
    def rests_on(self) -> str:
        """The log-ratio."""
        return f"the log-ratio of {self._name} is correct, which is unverified"

    @property
    def _name(self) -> str:
        return f"OwnMove({self.move.__name__!r})"

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
        asked: Any = size
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise SettingError(
                f"size={size!r} is not a number of dimensions. Give an integer of 1 or more."
            )
        if not is_number(scale) or not 0.0 < scale < np.inf:
            raise SettingError(
                f"scale={scale!r} is not a standard deviation. Give a number above 0."
            )
        drawn = min(self.batch_size, MOST_DRAWN)
        state = np.array(self.state, dtype=np.float64)
        record = self._linked(state, drawn, address_of(derivatives_of_rows), size)
        rng = np.random.default_rng(random_seed)
        return MoveCheck(self._name, record, self.require_proposed, float(scale), rng).largest()

    @property
    def draws_rows(self) -> bool:
        """Whether there is a batch."""
        return self.batch_size > 0

    @property
    def in_own_terms(self) -> bool:
        """True: the function is handed the model's own variables."""
        return True

    def record(self, size: int) -> OwnMoveState:
        """Return the state that a chain starts with."""
        return OwnMoveState(np.array(self.state, dtype=np.float64))

    def adapted(
        self, record: OwnMoveState, window: Tallies, total: Tallies, walk_target: float, size: int
    ) -> OwnMoveState:
        """Let the user's function adapt the state."""
        if self.adapt is None or not window[0, TRIED] > 0.0:
            return record
        state = record.state.copy()
        self.adapt(state, float(window[0, TALLY_ACCEPT] / window[0, TRIED]))
        return OwnMoveState(np.ascontiguousarray(state, dtype=np.float64))

    def linked(self, record: OwnMoveState, plan: Any) -> LinkedOwnMove:
        """Return the state with addresses; refuse rows that depend on other steps' variables."""
        target = plan.target
        if target.factorization.first > 0:
            raise SettingError(
                f"{target.factorization.blocks[0].name!r} belongs to another step, but OwnMove "
                "proposes all coordinates. Let this step update it as well, or use RandomWalk()."
            )
        derivatives = address_of(target.full_data.sums.derivatives) if self.batch_size else 0
        return self._linked(record.state, self.batch_size, derivatives, target.factorization.size)

    def _linked(
        self, state: np.ndarray, batch_size: int, derivatives: int, size: int
    ) -> LinkedOwnMove:
        move = address_of(self._compiled, raises=True)
        room = np.zeros(size), np.zeros(N_FAULTS, np.int64)
        return LinkedOwnMove(move, derivatives, batch_size, state, *room)

    def require_proposed(self, record: Any) -> None:
        """Raise a MinibatchError if the function has raised, or changed its position."""
        edited = bool(record.faults[EDITED])
        record.faults[EDITED] = 0
        if record.faults[RAISED]:
            error = take_kept(record.faults)
            raise MinibatchError(
                f"{self._name} raised {type(error).__name__}: {error}. It has to propose from "
                "every position of a chain. Let it return np.nan if it has no proposal: that is "
                "rejected and counted in the statistic invalid."
            ) from error
        if edited:
            raise MinibatchError(
                f"{self._name} changed `position`, the current state of the chain. Write the "
                "proposal to `new` only, and copy `position` before you change it."
            )

    def scaling(self, record: OwnMoveState) -> float:
        """Return the first number of the state, NaN without one."""
        return float(record.state[0]) if record.state.size else float("nan")
