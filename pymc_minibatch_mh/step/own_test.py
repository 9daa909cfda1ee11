"""A test of a user's own."""

from collections.abc import Callable, Sequence
from typing import Unpack

from pytensor.graph.basic import Variable

from pymc_minibatch_mh.methods import own_test
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.shared import SharedSettings


class OwnTestMH(MinibatchStep):
    """Metropolis–Hastings decided by a test of your own, on batches of rows.

    Guarantee: *approximate*. You say which error your test controls; nothing is known of it but
    what :func:`audit` measures.

    Parameters
    ----------
    plan
        ``plan(noise, n, total, numbers) -> int``: how many rows the next look must have read.
        `noise` is V, with V(1/b - 1/N) the predicted variance of the log ratio from b rows,
        symmetric in the two positions; `n` rows were read, of `total`. Half of the rows or more
        stand for all of them. Rows that every update reads are in neither.
    judge
        ``judge(log_ratio, variance, skewness, n, total, uniform, numbers) -> (verdict, acceptance
        probability, error estimate)``, all floats: 1 accepts, 0 rejects, -1 reads more. `uniform`
        is the same number in [0, 1) at every look; with all rows the variance is 0.
    numbers
        Settings that both are handed, float64 of shape (k,).
    controls
        Which error the test controls, in words.
    walk_target
        Acceptance that a random walk aims at in warm-up.
    vars
        Variables to move; by default all continuous ones. Other steps move the rest.
    **settings
        What all step methods take: see :class:`SharedSettings`.

    Raises
    ------
    SettingError
        If numba cannot compile a function.
    """

    name = "own_test_mh"

    def __init__(
        self,
        plan: Callable[..., int],
        judge: Callable[..., tuple[float, float, float]],
        *,
        controls: str,
        numbers: Sequence[float] = (),
        walk_target: float = 0.234,
        vars: Sequence[Variable] | None = None,
        **settings: Unpack[SharedSettings],
    ) -> None:
        method = own_test.OwnTestMethod(
            own_test.own_test(numbers),
            plan,
            judge,
            controls,
            check.positive("walk_target", walk_target),
        )
        self._prepare(vars, method, **settings)
