"""A move of a user's own, run inside the compiled update."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from numba import njit
from numba.core.errors import NumbaError

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data import code_digest
from pymc_minibatch_mh.errors import MinibatchError, SettingError, numbers_of
from pymc_minibatch_mh.kernels.batch import MOVE, MOVE_SIGNATURE, Metric, draw_batch
from pymc_minibatch_mh.kernels.counts import TALLY_ACCEPT, TRIED
from pymc_minibatch_mh.kernels.first_class import address_of, call_keeping, take_kept
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.kernels.vectors import copy_to
from pymc_minibatch_mh.proposals.base import Proposal, is_number
from pymc_minibatch_mh.proposals.move_check import MOST_DRAWN, MoveCheck, derivatives_of_rows

#: Entries of the faults of a move: the exception that it raised; whether it edited its position.
RAISED, EDITED, N_FAULTS = range(3)
#: Function of a user by its identity and its digest -> the same compiled, while a move has it.
_COMPILED: WeakValueDictionary[tuple[int, str], Any] = WeakValueDictionary()


class OwnMoveState(NamedTuple):
    """What a move keeps in a chain."""

    state: np.ndarray


class LinkedOwnMove(NamedTuple):
    """The same for compiled updates: addresses of the move and of the rows' derivatives.

    The move is handed `position`, a copy, and `faults` tell how it went wrong.
    """

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
    surrogate = posterior.surrogate
    # Before a position is looked at: the batch must know nothing of it.
    rows = draw_batch(rng, own.batch_size, own.derivatives, posterior)
    metric = Metric(surrogate.centre, surrogate.factor, surrogate.whitener)
    copy_to(own.position, move.position)
    # What the function does not write is no place to go to.
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
    """A move of your own, written in Python and compiled by numba.

    Guarantee: that of the method it is used with, if the returned number is the log-ratio of the
    move's densities. That rests on you: a wrong one biases the draws, and neither the step nor
    :func:`audit` sees it. :meth:`check` does. A proposal that is not written as a whole, or is not
    finite, is rejected and counted in ``invalid``, as is a log-ratio that is no number. A move
    that raises, or changes `position` in place, ends sampling with a ``MinibatchError``.

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
        # The digest tells a function whose globals have changed since from itself.
        known = id(plain), code_digest(plain)
        try:
            function = _COMPILED.get(known)
            if function is None:
                function = njit(MOVE_SIGNATURE, nogil=True, error_model="numpy")(plain)
        except (NumbaError, TypeError) as error:
            raise SettingError(
                f"OwnMove({getattr(plain, '__name__', plain)!r}) is no move that numba can "
                f"compile: {error}. Write it as a function of (position, new, rng, state, metric, "
                "rows) that returns a number, with NumPy operations and loops only."
            ) from error
        _COMPILED[known] = function
        object.__setattr__(self, "move", plain)
        object.__setattr__(self, "_digest", known[1])
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
    def rests_on(self) -> str:
        """The log-ratio."""
        return f"the log-ratio of {self._name} is right, which is a user's own and unverified"

    @property
    def _name(self) -> str:
        return f"OwnMove({self.move.__name__!r})"

    def check(self, size: int = 3, *, scale: float = 1.0, random_seed: int | None = None) -> float:
        """Check the log-ratio: updates with the move have to preserve a correlated Gaussian.

        Exact draws are moved by updates that use all rows, and compared with the Gaussian by the
        means, variances and correlations of all coordinates. A right log-ratio fails in one check
        of ten million, whatever the move; a wrong one fails if it shifts one of them by some 5%.
        The move is used with its first `state`, on batches of at most 20 rows. It has to have a
        density in `size` dimensions: no set of points with a mass of their own, and no manifold.

        Parameters
        ----------
        size
            Dimensions of the Gaussian.
        scale
            About its standard deviations: those that the move and its state are made for.
        random_seed
            Seed of the draws.

        Returns
        -------
        float
            Largest distance of a moment from its true value, in standard errors.

        Raises
        ------
        SettingError
            If the log-ratio is wrong, with the moment, its distance and a guess at the reason; or
            if the move gets nowhere, so that nothing can be told.
        MinibatchError
            If the move raises, or changes its position.
        """
        asked: Any = size
        if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
            raise SettingError(
                f"size={size!r} is no number of dimensions. Give an integer of 1 or more."
            )
        if not is_number(scale) or not 0.0 < scale < np.inf:
            raise SettingError(f"scale={scale!r} is no standard deviation. Give a number above 0.")
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
        return self._linked(record.state, self.batch_size, derivatives, target.split.size)

    def _linked(
        self, state: np.ndarray, batch_size: int, derivatives: int, size: int
    ) -> LinkedOwnMove:
        move = address_of(self._compiled, raises=True)
        room = np.zeros(size), np.zeros(N_FAULTS, np.int64)
        return LinkedOwnMove(move, derivatives, batch_size, state, *room)

    def require_proposed(self, record: Any) -> None:
        """Raise what has gone wrong in the user's function.

        Raises
        ------
        MinibatchError
            If it has raised, with its exception as the cause, or changed its position.
        """
        edited = bool(record.faults[EDITED])
        record.faults[EDITED] = 0
        if record.faults[RAISED]:
            error = take_kept(record.faults)
            raise MinibatchError(
                f"{self._name} has raised {type(error).__name__}: {error}. A move has to propose "
                "from every position that a chain can be at: let it return np.nan where it has no "
                "proposal, which is rejected and counted in the stat invalid."
            ) from error
        if edited:
            raise MinibatchError(
                f"{self._name} has changed `position`, which is where the chain is. Write the "
                "proposal to `new` alone, and copy `position` before you change it."
            )

    def scaling(self, record: OwnMoveState) -> float:
        """Return the first number of the state, NaN without one."""
        return float(record.state[0]) if record.state.size else float("nan")
