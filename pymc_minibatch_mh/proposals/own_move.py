"""A move of a user's own, run inside the compiled update."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data import code_digest
from pymc_minibatch_mh.errors import SettingError, numbers_of
from pymc_minibatch_mh.kernels.batch import MOVE, MOVE_SIGNATURE, Metric, draw_batch
from pymc_minibatch_mh.kernels.counts import TALLY_ACCEPT, TRIED
from pymc_minibatch_mh.kernels.first_class import address_of, function_at
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.proposals.base import Proposal


class OwnMoveState(NamedTuple):
    """What a move keeps in a chain."""

    state: np.ndarray


class LinkedOwnMove(NamedTuple):
    """The same for compiled updates: addresses of the move and of the rows' derivatives."""

    move: int
    derivatives: int
    batch_size: int
    state: np.ndarray


@role_of(LinkedOwnMove, "propose")
@compiled(inlined=True)
def propose_own(own, move, posterior, rng):
    """Draw rows, then let the user's function propose: see :func:`roles.propose`."""
    surrogate = posterior.surrogate
    # Before a position is looked at: the batch must know nothing of it.
    rows = draw_batch(rng, own.batch_size, own.derivatives, posterior)
    metric = Metric(surrogate.centre, surrogate.factor, surrogate.whitener)
    function = function_at(own.move, MOVE)
    # What the function does not write is no place to go to.
    for i in range(move.new.size):
        move.new[i] = np.nan
    return function(move.position, move.new, rng, own.state, metric, rows), 0


def _guarded(plain: Callable[..., float]) -> Any:
    """Compile a move; where it raises, it goes nowhere."""
    inner = njit(nogil=True, error_model="numpy")(plain)

    @njit(MOVE_SIGNATURE, nogil=True, error_model="numpy")
    def move(position, new, rng, state, metric, rows):
        try:
            return inner(position, new, rng, state, metric, rows)
        except Exception:
            # A first-class function cannot raise: numba would go on as if it had returned 0.
            return np.nan

    return move


@dataclass(frozen=True, eq=False)
class OwnMove(Proposal):
    """A move of your own, written in Python and compiled by numba.

    Guarantee: that of the method it is used with, if the returned number is what it says. A move
    that raises, or does not write all of its proposal, is rejected and counted in ``invalid``.

    Parameters
    ----------
    move
        ``move(position, new, rng, state, metric, rows) -> float``. Writes a proposal θ' to `new`,
        float64 of shape (d,) like `position`, on the unconstrained scale, and returns
        ``log q(θ|θ') - log q(θ'|θ)``, 0 for a symmetric move. `rng` is the chain's generator, the
        only source of randomness; `state` is the chain's own copy of `state` below; `metric` has
        ``centre`` θ̂, ``factor`` L and ``whitener`` L⁻¹ with L Lᵀ about the posterior covariance;
        `rows` is a batch for :func:`rows_gradient`, drawn before the position was looked at and
        to be used for both directions.
    state
        Numbers that the move keeps in a chain, such as its scale. It may change them in warm-up
        only through `adapt`: a move that remembers where it was is not one of a Markov chain.
    batch_size
        Rows of the batch; 0 for none.
    adapt
        ``adapt(state, acceptance)``, called after each window of warm-up with the share of moves
        that were accepted; changes `state` in place. None leaves it as it is.

    Raises
    ------
    SettingError
        If numba cannot compile the move.
    """

    move: Callable[..., float]
    state: Sequence[float] = ()
    batch_size: int = 0
    adapt: Callable[[np.ndarray, float], None] | None = None
    _compiled: Any = field(init=False, repr=False)
    # Taken now: numba has frozen what the function uses.
    _digest: str = field(init=False, repr=False)
    #: What set it keeps to is not known, such as a manifold, or points with a mass of their own.
    moves_without_rows = None

    def __post_init__(self) -> None:
        """Compile the move."""
        size: Any = self.batch_size
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise SettingError(
                f"batch_size={size!r} is no number of rows. Give an integer of 0 or more."
            )
        adapt: Any = self.adapt
        if adapt is not None and not callable(adapt):
            raise SettingError(
                f"adapt={adapt!r} is no function. Give one of (state, acceptance), or leave it out."
            )
        object.__setattr__(self, "state", numbers_of("state", self.state))
        plain = getattr(self.move, "py_func", self.move)
        try:
            function = _guarded(plain)
        except (NumbaError, TypeError) as error:
            raise SettingError(
                f"OwnMove({getattr(plain, '__name__', plain)!r}) is no move that numba can "
                f"compile: {error}. Write it as a function of (position, new, rng, state, metric, "
                "rows) that returns a number, with NumPy operations and loops only."
            ) from error
        object.__setattr__(self, "move", plain)
        object.__setattr__(self, "_digest", code_digest(plain))
        object.__setattr__(self, "_compiled", function)

    def __repr__(self) -> str:
        """Return what tells this move from others, in every process."""
        adapt = "" if self.adapt is None else f", adapted by {code_digest(self.adapt)}"
        move = f"{self.move.__name__} {self._digest}"
        return f"OwnMove({move}, {list(self.state)}, {self.batch_size}{adapt})"

    def __reduce__(self) -> tuple:
        """Leave out what is compiled."""
        return OwnMove, (self.move, self.state, self.batch_size, self.adapt)

    @property
    def draws_rows(self) -> bool:
        """Whether there is a batch."""
        return self.batch_size > 0

    @property
    def in_own_terms(self) -> bool:
        """True: the function is handed the model's own variables."""
        return True

    @property
    def n_components(self) -> int:
        """One."""
        return 1

    def record(self, size: int) -> OwnMoveState:
        """Return the state that a chain starts with."""
        return OwnMoveState(np.array(self.state, dtype=np.float64))

    def adapted(
        self,
        record: OwnMoveState,
        window: np.ndarray,
        total: np.ndarray,
        walk_target: float,
        size: int,
    ) -> OwnMoveState:
        """Let the user's function adapt the state."""
        if self.adapt is None or not window[0, TRIED] > 0.0:
            return record
        state = record.state.copy()
        self.adapt(state, float(window[0, TALLY_ACCEPT] / window[0, TRIED]))
        return OwnMoveState(np.ascontiguousarray(state, dtype=np.float64))

    def linked(self, record: OwnMoveState, prepared: Any) -> LinkedOwnMove:
        """Return the state with the addresses of this process.

        Raises
        ------
        SettingError
            Where other steps move variables that rows depend on.
        """
        target = prepared.target
        if target.split.first > 0:
            raise SettingError(
                f"{target.split.blocks[0].name!r} is moved by another step, and an OwnMove moves "
                "all coordinates. Let this step move it as well, or use RandomWalk()."
            )
        derivatives = address_of(target.passes.sums.derivatives) if self.batch_size else 0
        move = address_of(self._compiled)
        return LinkedOwnMove(move, derivatives, self.batch_size, record.state)

    def scaling(self, record: OwnMoveState) -> float:
        """Return the first number of the state, NaN without one."""
        return float(record.state[0]) if record.state.size else float("nan")
