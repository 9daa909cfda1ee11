"""The roles that one compiled update is built from, as types of first-class functions.

Every role is a plain function of arrays with one fixed signature. A kernel that takes its roles
as first-class functions is compiled and cached once, whatever model, proposal or test it is run
with: only the model's own graph is compiled again for a new model.
"""

from numba import types

VECTOR = types.float64[::1]
MATRIX = types.float64[:, ::1]
INDICES = types.int64[::1]
GENERATOR = types.NumPyRandomGeneratorType("NumPyRandomGeneratorType")

#: (position) -> log-density of everything that is not subsampled.
LOGP_SIGNATURE = types.float64(VECTOR)
LOGP = types.FunctionType(LOGP_SIGNATURE)

#: (position, proposal, centre, rows, ends, context, differences, scales) -> nothing.
#: Writes r_i(proposal) - r_i(position) and max |l_i| of each row; `rows` holds the row numbers
#: within their terms, term after term, and `ends` where each term's rows end.
EVALUATE_SIGNATURE = types.void(VECTOR, VECTOR, VECTOR, INDICES, INDICES, INDICES, VECTOR, VECTOR)
EVALUATE = types.FunctionType(EVALUATE_SIGNATURE)

#: (position, proposal, generator, numbers, centre, factor, whitener)
#: -> (log q(position | proposal) - log q(proposal | position), component that was drawn).
PROPOSE_SIGNATURE = types.Tuple((types.float64, types.int64))(
    VECTOR, VECTOR, GENERATOR, VECTOR, VECTOR, MATRIX, MATRIX
)
PROPOSE = types.FunctionType(PROPOSE_SIGNATURE)

#: (spread, rows read so far, all rows, settings) -> rows that the next look must have read.
PLAN_SIGNATURE = types.int64(types.float64, types.int64, types.int64, VECTOR)
PLAN = types.FunctionType(PLAN_SIGNATURE)

#: (log ratio, its variance, skewness of a row, rows read, all rows, uniform, settings)
#: -> (verdict: 1 accept, 0 reject, -1 read more; acceptance probability; error estimate).
DECIDE_SIGNATURE = types.UniTuple(types.float64, 3)(
    types.float64,
    types.float64,
    types.float64,
    types.int64,
    types.int64,
    types.float64,
    VECTOR,
)
DECIDE = types.FunctionType(DECIDE_SIGNATURE)

#: (position, direction, rows, ends, context, out) -> nothing. Writes value, gradient and Hessian
#: times direction of the summed log-likelihood of the rows: out has 1 + 2d entries.
DERIVATIVES_SIGNATURE = types.void(VECTOR, VECTOR, INDICES, INDICES, INDICES, VECTOR)
DERIVATIVES = types.FunctionType(DERIVATIVES_SIGNATURE)
