"""Roles of compiled updates: types of functions, and static dispatch on the types of records.

Every role is a plain function of arrays with one fixed signature, which a kernel calls by its
address: the kernel is compiled and cached once, whatever model, proposal or test it is run with.
Compiled again for a new model are its prior part and its rows: expressions of their linear forms
(``ROWWISE``), or where they have none, graphs of all parameters (``EVALUATE`` and ``DERIVATIVES``).

The functions of a method and of a proposal are chosen by the type of their record, compiled once
for each such type, and call those of the record directly.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]
INDICES = types.int64[::1]
GENERATOR = types.NumPyRandomGeneratorType("NumPyRandomGeneratorType")

#: (position, context) -> log-density of everything that is not subsampled.
LOGP_SIGNATURE = types.float64(VECTOR, INDICES)
LOGP = types.FunctionType(LOGP_SIGNATURE)

#: (position, proposal, centre, rows, ends, context, differences, scales) -> nothing.
#: Writes r_i(proposal) - r_i(position) of each row and a scale of its rounding error: where rows
#: are functions of forms the rounding error that is possible, in units of the machine epsilon;
#: where they are graphs the larger of the log-likelihoods that are differenced. `rows` holds the
#: row numbers within their terms, term after term, and `ends` where each term's rows end.
EVALUATE_SIGNATURE = types.void(VECTOR, VECTOR, VECTOR, INDICES, INDICES, INDICES, VECTOR, VECTOR)
EVALUATE = types.FunctionType(EVALUATE_SIGNATURE)

#: (predicted noise, rows read so far, all rows, settings) -> rows to have read at the next look.
SAMPLE_SIZE_SIGNATURE = types.int64(types.float64, types.int64, types.int64, VECTOR)
SAMPLE_SIZE = types.FunctionType(SAMPLE_SIZE_SIGNATURE)

#: (log ratio, its variance, skewness of a row, rows read, all rows, uniform, settings)
#: -> (verdict: 1 accept, 0 reject, -1 read more; acceptance probability; error estimate).
DECIDE_BATCH_SIGNATURE = types.UniTuple(types.float64, 3)(
    types.float64,
    types.float64,
    types.float64,
    types.int64,
    types.int64,
    types.float64,
    VECTOR,
)
DECIDE_BATCH = types.FunctionType(DECIDE_BATCH_SIGNATURE)

#: (inputs, shape (rows, arguments of a row function); outputs, shape (rows, values)).
ROWWISE_SIGNATURE = types.void(MATRIX, MATRIX)
ROWWISE = types.FunctionType(ROWWISE_SIGNATURE)

#: (context, place of a term's part of it, rows, vectors, shape (k, d); fixed coefficients, places
#: and chosen coefficients, at least a line per row; inputs, shape (rows, k m + leaves)) -> nothing.
#: Reads the coefficients of the rows' linear forms, and writes the forms applied to each vector,
#: then the leaves, to the inputs of a row function.
READ_SIGNATURE = types.void(
    INDICES, types.int64, INDICES, MATRIX, MATRIX, types.int64[:, ::1], MATRIX, MATRIX
)
READ = types.FunctionType(READ_SIGNATURE)

#: (position, rows, ends, context, sums, hessian) -> nothing. Adds value and gradient of the summed
#: log-likelihood of the rows to the 1 + d sums, and the Hessian, unless it has no entries.
DERIVATIVES_SIGNATURE = types.void(VECTOR, INDICES, INDICES, INDICES, VECTOR, MATRIX)
DERIVATIVES = types.FunctionType(DERIVATIVES_SIGNATURE)

#: (position, factor L, rows, ends, context, out) -> nothing. Adds half of the third derivatives of
#: the rows' summed log-likelihood, contracted with L Lᵀ in two places, to the d entries of out.
BEND_SIGNATURE = types.void(VECTOR, MATRIX, INDICES, INDICES, INDICES, VECTOR)
SKEWNESS = types.FunctionType(BEND_SIGNATURE)

#: (position, context, out) -> nothing. Writes the log-density that the prior part has of every
#: element of a factor.
ELEMENTS_SIGNATURE = types.void(VECTOR, INDICES, VECTOR)
ELEMENTS = types.FunctionType(ELEMENTS_SIGNATURE)

#: (position, new) -> M of the move, in units of the bounds that a user gave.
METRIC_SIGNATURE = types.float64(VECTOR, VECTOR)
METRIC = types.FunctionType(METRIC_SIGNATURE)

#: (address of a proposal's record, address of the KernelState of a chain, generator)
#: -> (log q(position | new) - log q(new | position), component drawn).
PROPOSAL = types.Tuple((types.float64, types.int64))
PROPOSE = types.FunctionType(PROPOSAL(types.int64, types.int64, INDICES))

#: (address of a test's record, address of the KernelState of a chain, cheap part of the log ratio,
#: generator, counts) -> (verdict, acceptance probability, rows read).
DECISION = types.UniTuple(types.float64, 3)
DECIDE = types.FunctionType(DECISION(types.int64, types.int64, types.float64, INDICES, VECTOR))


# Entries of the counts of a draw. A new one without a longer range fails here: compiled code does
# not check where it writes.
(
    # Entries that updates add to.
    ACCEPT, ACCEPTED, N_OBS, N_LOOKS, FULL_PASS, INVALID, ERROR, UNDERESTIMATED,
    # Entries with the value of the last update.
    LOG_RATIO, LOG_RATIO_STD,
    # Largest |dU_i|/(c_i M) that was seen, above 1 of a violated bound, and the row that had it.
    BOUND_RATIO, BOUND_ROW,
    # Statistics for the choice of χ: Σ C M, their number; Σ of squared ratios, their number.
    SIZES, N_SIZES, SQUARED_RATIOS, N_RATIOS,
    # Rows that were bright in the last update of a firefly sampler.
    N_BRIGHT,
    # Evaluations of the prior part by moves without rows.
    N_PRIOR,
    # Of iterations over elements: acceptance probabilities of the border, of elements, averaged
    # over them, of scales, and of directions; candidates, kept or not; elements whose rows were
    # all read.
    ACCEPT_BORDER, ACCEPT_ELEMENTS, ACCEPT_SCALES, ACCEPT_DIRECTIONS, N_CANDIDATES,
    N_GROUPS_IN_FULL,
    N_COUNTS,
) = range(25)  # fmt: skip


#: Features of some steps, without which a statistic would be zero in every draw.
type Feature = Literal[
    "batches", "bounds", "bright rows", "ceilings", "slices", "effects", "scales", "directions"
]


class Statistic(NamedTuple):
    """A statistic of a draw: type, meaning, and the entry that updates count it in, if they do.

    Averages are divided by the number of updates. Traces have it if the step has what it `needs`.
    """

    dtype: type
    meaning: str
    entry: int | None = None
    needs: Feature | None = None
    averaged: bool = False


#: All are scalars per draw. A name that PyMC's own steps use has their type, or both could not own
#: variables of one model: `accepted` is boolean in some of them and not in others, so that no step
#: beside all of them can have it.
STATS = {
    "accept": Statistic(np.float64, "estimated acceptance probability", ACCEPT, averaged=True),
    "accepted_share": Statistic(np.float64, "share of accepted updates", ACCEPTED, averaged=True),
    "n_obs": Statistic(np.int64, "evaluations of rows, each of them counted", N_OBS),
    "n_looks": Statistic(np.int64, "looks that the test took", N_LOOKS, "batches"),
    "full_pass": Statistic(np.int64, "updates that read all rows", FULL_PASS),
    "n_bright": Statistic(np.int64, "bright rows in the last update", N_BRIGHT, "bright rows"),
    "n_prior": Statistic(np.int64, "evaluations of the prior by slice moves", N_PRIOR, "slices"),
    "n_candidates": Statistic(np.int64, "rows drawn, read or not", N_CANDIDATES, "ceilings"),
    "n_groups_in_full": Statistic(
        np.int64, "groups of which all rows were read", N_GROUPS_IN_FULL, "effects"
    ),
    "accept_border": Statistic(
        np.float64, "acceptance of the border of elements", ACCEPT_BORDER, "effects", averaged=True
    ),
    "accept_elements": Statistic(
        np.float64, "mean acceptance of elements", ACCEPT_ELEMENTS, "effects", averaged=True
    ),
    "accept_scales": Statistic(
        np.float64, "acceptance of scales with elements", ACCEPT_SCALES, "scales", averaged=True
    ),
    "accept_directions": Statistic(
        np.float64, "acceptance along directions", ACCEPT_DIRECTIONS, "directions", averaged=True
    ),
    "log_ratio": Statistic(np.float64, "estimated log ratio of the last update", LOG_RATIO),
    "log_ratio_std": Statistic(np.float64, "its standard error", LOG_RATIO_STD, "batches"),
    "error_estimate": Statistic(
        np.float64, "estimated error of `accept`", ERROR, "batches", averaged=True
    ),
    "bound_ratio": Statistic(np.float64, "largest change over bound", BOUND_RATIO, "bounds"),
    "certified": Statistic(np.bool_, "whether the draw is exact by bounds of the model itself"),
    "invalid": Statistic(np.int64, "updates rejected as a log-density was not finite", INVALID),
    "scaling": Statistic(np.float64, "scale of the random walk"),
    "temperature": Statistic(np.float64, "temperature K of the log-likelihood"),
    "perf_counter_diff": Statistic(np.float64, "seconds spent in the draw"),
}

# Columns of the tally that is kept for each component of the proposal.
TRIED, TALLY_ACCEPT, JUMP, SQUARE_JUMP, ROWS = range(5)
N_TALLIES = 5


# Bodies that raise are for compiled code alone, where the functions of a record take its place.

#: A function is compiled as a part of its caller: called from a function in between, it would be
#: optimised twice more. Its arguments may have names of its own.
_IN_PLACE: dict[str, Any] = {
    "strict": False,
    "jit_options": {"forceinline": True, "error_model": "numpy", "nogil": True},
}


def role_of(record: type, name: str) -> Callable[[Any], Any]:
    """Return a decorator that makes a compiled function the one of a role for a type of records.

    Its text is compiled in the place of the role, with the options of :func:`_jit.compiled` that
    are the default: not for one that reassociates.
    """

    def assign(function: Any) -> Any:
        setattr(record, name, function)
        return function

    return assign


def propose(proposal, move, posterior, rng):
    """Write a proposal to `move.new`, with `move.there` as scratch.

    Coordinates before `posterior.reference.first` belong to other steps, and are copied. Returned
    are log q(position | new) - log q(new | position), and the component that was drawn: -1 for a
    move that went wrong, which ends the run.
    """
    raise NotImplementedError


def decide(test, move, cheap, posterior, rng, counts):
    """Decide on a move, of which `cheap` is the part of the log ratio that needs no row.

    Rows are read by the functions of ``kernels/posterior.py``. The test adds to ``N_LOOKS``,
    ``FULL_PASS``, ``INVALID`` and ``ERROR`` of the counts, shape (N_COUNTS,), and sets
    ``LOG_RATIO`` and ``LOG_RATIO_STD``; the rest is counted by its caller. Returned are, as floats,
    the verdict (1 accept, 0 reject, -1 a bound was violated), the acceptance probability and the
    rows read.
    """
    raise NotImplementedError


def thinned(change, bound, size, test):
    """Thin a row of a Poisson test that was drawn at a rate up to `bound` (1 + χ `size`).

    Returned are the probability of keeping it and what a kept row adds to the log ratio.
    """
    raise NotImplementedError


def sample_size(noise, n, total, test):
    """Return how many rows the next look must have read, of which `n` were drawn so far.

    V(1/b - 1/total), V the `noise`, is the predicted variance of the log ratio from b rows; `total`
    rows are drawn from: all but the heavy ones, which are read at every update.
    """
    raise NotImplementedError


def decide_batch(log_ratio, variance, skewness, n, total, uniform, test):
    """Return the verdict of a look at `n` of the `total` rows that are drawn from.

    Given are the estimated log ratio, the estimate of its variance, the skewness of the rows'
    differences, and a number in [0, 1) that is the same at every look. Returned are, as floats, the
    verdict (1 accept, 0 reject, -1 read more), the acceptance probability and an error estimate.
    """
    raise NotImplementedError


@overload(propose, **_IN_PLACE)
def _propose(proposal, move, posterior, rng):
    return proposal.instance_class.propose.py_func


@overload(decide, **_IN_PLACE)
def _decide(test, move, cheap, posterior, rng, counts):
    return test.instance_class.decide.py_func


@overload(thinned, **_IN_PLACE)
def _thinned(change, bound, size, test):
    return test.instance_class.thinned.py_func


@overload(sample_size, **_IN_PLACE)
def _plan(noise, n, total, test):
    return test.instance_class.sample_size.py_func


@overload(decide_batch, **_IN_PLACE)
def _judge(log_ratio, variance, skewness, n, total, uniform, test):
    return test.instance_class.decide_batch.py_func
