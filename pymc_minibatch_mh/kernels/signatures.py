"""The roles that one compiled update is built from, as types of first-class functions.

Every role is a plain function of arrays with one fixed signature. A kernel that takes its roles
as first-class functions is compiled and cached once, whatever model, proposal or test it is run
with. Compiled again for a new model are its prior part and its rows: expressions of their linear
forms (``ROWWISE``), or where they have none, graphs of all parameters (``EVALUATE`` and
``DERIVATIVES`` themselves).
"""

from numba import types

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
PLAN_SIGNATURE = types.int64(types.float64, types.int64, types.int64, VECTOR)
PLAN = types.FunctionType(PLAN_SIGNATURE)

#: (log ratio, its variance, skewness of a row, rows read, all rows, uniform, settings)
#: -> (verdict: 1 accept, 0 reject, -1 read more; acceptance probability; error estimate).
JUDGE_SIGNATURE = types.UniTuple(types.float64, 3)(
    types.float64,
    types.float64,
    types.float64,
    types.int64,
    types.int64,
    types.float64,
    VECTOR,
)
JUDGE = types.FunctionType(JUDGE_SIGNATURE)

#: (inputs, shape (rows, what a row function takes); outputs, shape (rows, what it returns)).
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
BEND = types.FunctionType(BEND_SIGNATURE)

#: (position, new) -> M of the move, in units of the bounds that a user gave.
METRIC_SIGNATURE = types.float64(VECTOR, VECTOR)
METRIC = types.FunctionType(METRIC_SIGNATURE)

#: (address of a proposal's record, address of the Workings of a chain, generator)
#: -> (log q(position | new) - log q(new | position), component drawn).
PROPOSAL = types.Tuple((types.float64, types.int64))
PROPOSE = types.FunctionType(PROPOSAL(types.int64, types.int64, INDICES))

#: (address of a test's record, address of the Workings of a chain, cheap part of the log ratio,
#: generator, counts) -> (verdict, acceptance probability, rows read).
DECISION = types.UniTuple(types.float64, 3)
DECIDE = types.FunctionType(DECISION(types.int64, types.int64, types.float64, INDICES, VECTOR))
