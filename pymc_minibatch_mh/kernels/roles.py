"""What differs from method to method and from proposal to proposal, chosen by the type of a record.

A role is compiled once for each type of records, and a run calls it by its address. Within a role
the functions of a record are called directly, and those that the model or a user brings by address.
"""

from collections.abc import Callable
from typing import Any

from numba.extending import overload

# What raises below is for compiled code alone, where the functions of a record take its place.

#: A function is compiled as a part of its caller: called from a function in between, it would be
#: optimised twice more. Its arguments may have names of its own.
_IN_PLACE: dict[str, Any] = {
    "strict": False,
    "jit_options": {"forceinline": True, "error_model": "numpy", "nogil": True},
}


def role_of(record: type, name: str) -> Callable[[Any], Any]:
    """Return a decorator that makes a compiled function the one for a type of records.

    Its text is compiled in the place of the role, with the options of :func:`_jit.compiled` that
    are the default: not for one that reassociates.

    Parameters
    ----------
    record
        A named tuple class.
    name
        Name of a role below.
    """

    def assign(function: Any) -> Any:
        setattr(record, name, function)
        return function

    return assign


def propose(proposal, move, posterior, rng):
    """Write a proposal to `move.new`, with `move.there` as scratch.

    Returns
    -------
    tuple
        log q(position | new) - log q(new | position), and the component that was drawn; -1 for a
        move that went wrong, which ends the run.
    """
    raise NotImplementedError


def decide(test, move, cheap, posterior, rng, counts):
    """Decide on a move.

    Parameters
    ----------
    test : named tuple
        Settings and state of the test.
    move : Move
    cheap
        Part of the log ratio that needs no row.
    posterior : Posterior
    rng : numpy.random.Generator
    counts : ndarray, shape (N_COUNTS,)
        Added to.

    Returns
    -------
    tuple of float
        Verdict (1 accept, 0 reject, -1 a bound was violated); acceptance probability; rows read.
    """
    raise NotImplementedError


def plan(noise, n, total, test):
    """Return how many rows the next look must have read.

    Parameters
    ----------
    noise
        V, with V(1/b - 1/total) the predicted variance of the log ratio from b rows.
    n, total
        Rows drawn so far, and all that are drawn from: without the heavy ones, which are read at
        every update.
    test : named tuple
        Settings of the test.
    """
    raise NotImplementedError


def judge(log_ratio, variance, skewness, n, total, uniform, test):
    """Return the verdict of a look.

    Parameters
    ----------
    log_ratio, variance
        Estimated log ratio, and the estimate of its variance.
    skewness
        Of the rows' differences.
    n, total
        Rows drawn, and all that are drawn from.
    uniform
        Uniform number in [0, 1), the same at every look.
    test : named tuple
        Settings of the test.

    Returns
    -------
    tuple of float
        Verdict (1 accept, 0 reject, -1 read more); acceptance probability; error estimate.
    """
    raise NotImplementedError


@overload(propose, **_IN_PLACE)
def _propose(proposal, move, posterior, rng):
    return proposal.instance_class.propose.py_func


@overload(decide, **_IN_PLACE)
def _decide(test, move, cheap, posterior, rng, counts):
    return test.instance_class.decide.py_func


@overload(plan, **_IN_PLACE)
def _plan(noise, n, total, test):
    return test.instance_class.plan.py_func


@overload(judge, **_IN_PLACE)
def _judge(log_ratio, variance, skewness, n, total, uniform, test):
    return test.instance_class.judge.py_func
