"""Interface between C and custom proposals that numba compiles, with their exceptions.

C passes one record, ``mh_handed``, to a shim that calls the proposal and stores its exception.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic
from numba.np.arrayobj import make_array
from numba.np.random.distributions import random_loggam, random_poisson_mult

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.data import code_digest
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.library import dtype_of
from pymc_minibatch_mh.threads import DelayedInterrupts

VECTOR, MATRIX, INDICES = types.float64[::1], types.float64[:, ::1], types.int64[::1]
GENERATOR = types.NumPyRandomGeneratorType("NumPyRandomGeneratorType")
_WORD = ir.IntType(64)


class Metric(NamedTuple):
    """Posterior geometry, frozen in a chain: θ̂, L and L⁻¹, with L Lᵀ about the covariance."""

    centre: np.ndarray
    factor: np.ndarray
    whitener: np.ndarray


class Batch(NamedTuple):
    """A minibatch fixed before proposing, shared by the forward and the reverse proposal.

    Sums over the rows numbered `drawn` are multiplied by `scale`, β N/b, or 0 without rows. The
    other fields are addresses: the C record, scratch memory, and ``mh_rows_gradient``.
    """

    drawn: np.ndarray
    scale: float
    size: int
    batch: int
    scratch: int
    gradient: int


_METRIC = types.NamedTuple([VECTOR, MATRIX, MATRIX], Metric)
_BATCH = types.NamedTuple([INDICES, types.float64, *[types.int64] * 4], Batch)
#: Signature (position, new, generator, state, metric, rows) -> log q(θ|θ') - log q(θ'|θ); writes
#: `new`.
MOVE_SIGNATURE = types.float64(VECTOR, VECTOR, GENERATOR, VECTOR, _METRIC, _BATCH)
MOVE = types.FunctionType(MOVE_SIGNATURE)
#: Signature of :func:`call_move`: addresses of an ``mh_handed`` and of log_q.
CALL_SIGNATURE = types.int64(types.int64, types.int64)
_HANDED = dtype_of("mh_handed")


@intrinsic
def _pointer_at(typing_context, address):
    """Convert an address to a pointer."""

    def generate_code(context, builder, _signature, values):
        return builder.inttoptr(values[0], cgutils.voidptr_t)

    return types.voidptr(address), generate_code


@intrinsic
def _generator_at(typing_context, state, next_double, next_uint64, next_uint32):
    """NumPy generator for numba, from the addresses of its bit generator."""

    def generate_code(context, builder, _signature, values):
        bits = cgutils.create_struct_proxy(types.NumPyRandomBitGeneratorType("bit_generator"))(
            context, builder
        )
        bits.state_address = bits.state = values[0]
        bits.fnptr_next_double, bits.fnptr_next_uint64, bits.fnptr_next_uint32 = values[1:]
        generator = cgutils.create_struct_proxy(GENERATOR)(context, builder)
        generator.bit_generator = bits._getvalue()
        # No references are counted, because the Python generator outlives the call.
        bits.parent = generator.parent = ir.Constant(context.get_value_type(types.pyobject), None)
        generator.meminfo = ir.Constant(cgutils.voidptr_t, None)
        return generator._getvalue()

    return GENERATOR(*[types.int64] * 4), generate_code


@intrinsic
def _status_of(typing_context, address, arguments):
    """Call the C function at an address with `arguments`, and return its status."""

    def generate_code(context, builder, signature, values):
        given = list(cgutils.unpack_tuple(builder, values[1]))
        for k, typed in enumerate(signature.args[1]):
            if isinstance(typed, types.Array):
                data = make_array(typed)(context, builder, given[k]).data
                given[k] = builder.ptrtoint(data, _WORD)
        layout = ir.FunctionType(ir.IntType(32), [_WORD] * len(given))
        function = builder.inttoptr(values[0], layout.as_pointer())
        return builder.zext(builder.call(function, given), _WORD)

    return types.int64(address, arguments), generate_code


@intrinsic
def _call_storing_exception(typing_context, address, function_type, arguments, kept):
    """Call the function at an address; if it raises, keep the exception and return null.

    The address is from :func:`address_of` with `raises`. The first entry of `kept`, int64, is
    overwritten by the exception, for :func:`take_exception`.
    """
    called = function_type.instance_type.signature

    def generate_code(context, builder, _signature, values):
        convention, python = context.call_conv, context.get_python_api(builder)
        layout = convention.get_function_type(called.return_type, called.args)
        function = builder.inttoptr(values[0], layout.as_pointer())
        given = cgutils.unpack_tuple(builder, values[2])
        status, returned = convention.call_function(
            builder, function, called.return_type, called.args, given
        )
        with builder.if_then(status.is_error, likely=False):
            lock = python.gil_ensure()
            convention.raise_error(builder, python, status)
            fetched = ir.FunctionType(python.pyobj, [])
            error = cgutils.get_or_insert_function(
                builder.module, fetched, "PyErr_GetRaisedException"
            )
            entries = make_array(kept)(context, builder, values[3]).data
            builder.store(builder.ptrtoint(builder.call(error, []), _WORD), entries)
            python.gil_release(lock)
        return returned

    return types.float64(address, function_type, arguments, kept), generate_code


def take_exception(kept: np.ndarray) -> BaseException:
    """Return and clear the stored exception of a custom proposal."""
    held = ctypes.cast(int(kept[0]), ctypes.py_object)
    kept[0] = 0
    error: BaseException = held.value
    ctypes.pythonapi.Py_DecRef(held)
    return error


def address_of(function: Any, signature: Any, *, raises: bool = False) -> int:
    """Address of a numba function, which the caller keeps alive.

    With `raises` the address is for numba's calls, which pass exceptions on; otherwise for C.
    """
    # Signals wait during compilation: an interrupt inside LLVM would leave its lock taken forever.
    with DelayedInterrupts():
        result = function.get_compile_result(signature)
        described = result.fndesc
        name = described.llvm_func_name if raises else described.llvm_cfunc_wrapper_name
        address: int = result.library.get_pointer_to_function(name)
        return address


#: Compiled functions by description, identity and digest, while they are in use.
_COMPILED: WeakValueDictionary[tuple[str, int, str], Any] = WeakValueDictionary()


def compiled_once(words: str, way: str, plain: Any, build: Callable[[Any], Any]) -> Any:
    """Compile a user's function once per process; SettingError if numba cannot compile it.

    The message describes the function in `words`, and the `way` to write it.
    """
    # The digest covers globals: after they change, the function is compiled again.
    known = words, id(plain), code_digest(plain)
    try:
        compiled = _COMPILED.get(known)
        if compiled is None:
            # Signals wait: an interrupt inside LLVM would leave its lock taken forever.
            with DelayedInterrupts():
                compiled = _COMPILED[known] = build(plain)
        return compiled
    except (NumbaError, TypeError) as error:
        message = f"{words} cannot be compiled by numba: {error}. Write it {way}"
        raise SettingError(message) from error


@compile_by_numba()
def call_move(address, out):
    """Call a custom proposal from C; ``mh_users_move`` describes the arguments."""
    handed = carray(_pointer_at(address), 1, _HANDED)[0]
    d, bits = handed.size, handed.bits
    rng = _generator_at(bits.state, bits.next_double, bits.next_uint64, bits.next_uint32)
    metric = Metric(
        carray(_pointer_at(handed.centre), (d,), np.float64),
        carray(_pointer_at(handed.factor), (d, d), np.float64),
        carray(_pointer_at(handed.whitener), (d, d), np.float64),
    )
    drawn = carray(_pointer_at(handed.drawn), (handed.n_drawn,), np.int64)
    rows = Batch(drawn, handed.scale, d, handed.batch, handed.scratch, handed.gradient)
    position = carray(_pointer_at(handed.position), (d,), np.float64)
    new = carray(_pointer_at(handed.new_position), (d,), np.float64)
    state = carray(_pointer_at(handed.state), (handed.n_state,), np.float64)
    kept = carray(_pointer_at(handed.kept), (1,), np.int64)
    log_q = _call_storing_exception(
        handed.function, MOVE, (position, new, rng, state, metric, rows), kept
    )
    carray(_pointer_at(out), (1,), np.float64)[0] = log_q
    return np.int64(kept[0] != 0)


@compile_by_numba()
def rows_gradient(rows, position, out):
    """Estimate the gradient of the log-likelihood from a batch, in a custom proposal.

    Parameters
    ----------
    rows : Batch
        The batch that the proposal received.
    position : ndarray, shape (d,)
    out : ndarray, shape (d,)
        Overwritten with β N/b Σ ∇ℓ_i, unconstrained scale; zero without rows. The value β N/b Σ ℓ_i
        is returned.
    """
    if position.size != rows.size or out.size != rows.size:
        raise ValueError("rows_gradient takes a position and an array of its size")
    place, slopes, value = np.empty(rows.size), np.empty(rows.size), np.empty(1)
    for j in range(rows.size):
        place[j] = position[j]
    if _status_of(rows.gradient, (rows.batch, place, slopes, value, rows.scratch)) != 0:
        raise MemoryError("there is no memory for a gradient of rows")
    for j in range(rows.size):
        out[j] = slopes[j]
    return value[0]


@compile_by_numba()
def sample_poisson(rng, mean):
    """Poisson draw with a finite mean, as by ``rng.poisson(mean)`` of NumPy.

    Numba's own sampler is wrong for means of 10 and above: it rounds proposals towards zero where
    NumPy rounds down, so proposals in (-1, 0) become zeros instead of rejections. Hörmann (1993),
    doi:10.1016/0167-6687(93)90997-4.
    """
    if mean == 0.0:
        return 0
    if mean < 10.0:
        return random_poisson_mult(rng.bit_generator, mean)
    log_mean = np.log(mean)
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    log_inverse_alpha = np.log(1.1239 + 1.1328 / (b - 3.4))
    accepted_at_once = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u, v = rng.random() - 0.5, rng.random()
        inside = 0.5 - abs(u)
        k = np.floor((2.0 * a / inside + b) * u + mean + 0.43)
        if inside >= 0.07 and v <= accepted_at_once:
            return np.int64(k)
        if k < 0.0 or (inside < 0.013 and v > inside):
            continue
        log_hat = np.log(v) + log_inverse_alpha - np.log(a / (inside * inside) + b)
        if log_hat <= -mean + k * log_mean - random_loggam(k + 1.0):
            return np.int64(k)
