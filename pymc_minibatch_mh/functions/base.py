"""Scalar operations that PyTensor lacks, and evaluation of scalar operations on data and in graphs.

Each file of this package defines its operation by a kernel, a compiled function of numbers. Calls
of SciPy for single observations would be thousands of times slower than the rest of an update, and
would keep the interpreter lock.
"""

import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from pytensor.gradient import grad_undefined
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from scipy import special

from pymc_minibatch_mh.errors import MinibatchError

try:
    from pytensor.link.numba.dispatch.basic import register_funcify_and_cache_key
except OSError as error:
    raise MinibatchError(
        f"PyTensor cannot write to {error.filename!r} ({error.strerror}), where it stores "
        "compiled graphs. Before Python starts, set the environment variable "
        "PYTENSOR_FLAGS='base_compiledir=FOLDER' to a writable folder."
    ) from error

#: Derivatives of PyTensor's operations, as functions of operand and value, if PyTensor has none or
#: if its formula cancels or gives inf - inf.
SLOPES: dict[type[ScalarOp], Callable[..., Variable]] = {}
#: Cancellation-free differences of operations, as functions of before, after and after - before.
CHANGES: dict[type[ScalarOp], ScalarOp] = {}


class Function(ScalarOp):
    """Operation on floats, as a function of its first operand; the others are data."""

    kernel: Any
    #: Derivative in the first operand, as a function of all operands and the value.
    slope: Callable[..., Variable] | None
    #: Whether the function is a derivative in its second operand; the first operand is its order.
    has_order: bool

    def impl(self, *values: Any) -> Any:
        """Value in Python, for PyTensor."""
        return self.kernel(*values)

    def pullback(
        self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence
    ) -> list[Variable]:
        """Derivatives for PyTensor's automatic differentiation."""
        if self.has_order:
            slope = self(inputs[0] + double_constant(1), *inputs[1:])
        elif self.slope is not None:
            slope = self.slope(*inputs, *outputs)
        else:
            return super().pullback(inputs, outputs, cotangents)
        results = [grad_undefined(self, k, x) for k, x in enumerate(inputs)]
        results[self.has_order] = cotangents[0] * slope
        return results


def make_operation(
    kernel: Any,
    slope: Callable[..., Variable] | None = None,
    *,
    has_order: bool = False,
    numpy: tuple | None = None,
    is_plain: bool = False,
) -> tuple[type[ScalarOp], ScalarOp]:
    """Class and instance of the operation of a kernel: ``LogErfc`` for ``log_erfc_at``.

    Pickles refer to both by these names in the kernel's module. `numpy` is the name of NumPy's
    function, with its numbers of inputs and outputs. A kernel that `is_plain` also runs as plain
    Python, so that small priors need no compilation. :class:`Function` explains the others.
    """
    name = kernel.__name__.removesuffix("_at")
    taken = inspect.signature(kernel.py_func).parameters.values()
    any_number = any(one.kind is one.VAR_POSITIONAL for one in taken)
    members = {
        "__module__": kernel.__module__,
        "nin": -1 if any_number else len(taken),
        "nfunc_spec": numpy,
        "kernel": staticmethod(kernel),
        "slope": slope and staticmethod(slope),
        "has_order": has_order,
    }
    if is_plain:
        # With Python's own numbers, division by zero would be an error.
        members["impl"] = lambda self, *values: kernel.py_func(*map(np.float64, values))
    made = type("".join(map(str.capitalize, name.split("_"))), (Function,), members)
    register_kernel(made, kernel)
    return made, made(scalar.upgrade_to_float, name=name)


def register_kernel(op: type[ScalarOp], kernel: Any) -> None:
    """Register a kernel as the implementation of an operation in compiled graphs."""

    @register_funcify_and_cache_key(op)
    def dispatch_kernel(op: ScalarOp, node: Any = None, **_: Any) -> tuple[Any, str]:
        return kernel, _kernel_key(kernel)


@cache
def _kernel_key(kernel: Any) -> str:
    """Key of a kernel in PyTensor's cache on disk."""
    key = sha256(f"{kernel.__module__} {kernel.__name__}".encode())
    for path in sorted(set(_kernel_files(kernel))):
        key.update(Path(path).read_bytes())
    return key.hexdigest()


def _kernel_files(kernel: Any) -> Iterator[str]:
    yield str(sys.modules[kernel.__module__].__file__)
    for called in _kernels_called(kernel).values():
        yield from _kernel_files(called)


def _kernels_called(kernel: Any) -> dict[str, Any]:
    known = kernel.py_func.__globals__
    found = {name: known.get(name) for name in kernel.py_func.__code__.co_names}
    return {n: x for n, x in found.items() if hasattr(x, "py_func") and x is not kernel}


@cache
def in_python(kernel: Any) -> Callable[..., float]:
    """Kernel that is not compiled, with the kernels that it calls; of NumPy's numbers."""
    called = {name: in_python(other) for name, other in _kernels_called(kernel).items()}
    return FunctionType(kernel.py_func.__code__, kernel.py_func.__globals__ | called)


def double_constant(value: float) -> Variable:
    """Constant in double precision; PyTensor would convert 2.0 to single precision."""
    return scalar.constant(np.asarray(value)[()])


def value_and_slopes(op: ScalarOp, operands: Sequence[Variable]) -> tuple[Variable, list[Variable]]:
    """Value and derivatives of an operation; MethodNotDefined or NotImplementedError if none."""
    outputs = op.make_node(*operands).outputs
    if type(op) in SLOPES:
        return outputs[0], [SLOPES[type(op)](*operands, *outputs)]
    return outputs[0], op.pullback(operands, outputs, [double_constant(1.0)])


@cache
def scalar_output_type(op: ScalarOp, *dtypes: np.dtype) -> np.dtype:
    """PyTensor's output type of a scalar operation."""
    operands = [scalar.get_scalar_type(dtype.name)() for dtype in dtypes]
    return np.dtype(op.make_node(*operands).outputs[0].type.dtype)


def numpy_function(op: ScalarOp) -> Callable[..., np.ndarray]:
    """Function of arrays with PyTensor's output types: NumPy's exp(int8) would be float16."""
    plain = double_function(op)

    def evaluate_arrays(*values: Any) -> np.ndarray:
        arrays = [np.asarray(value) for value in values]
        dtype = scalar_output_type(op, *(array.dtype for array in arrays))
        if dtype.kind == "f" and not isinstance(op, scalar.Switch | scalar.Cast):
            arrays = [array.astype(dtype, copy=False) for array in arrays]
        return np.asarray(plain(*arrays)).astype(dtype, copy=False)

    return evaluate_arrays


def double_function(op: ScalarOp) -> Callable[..., np.ndarray]:
    """Function of numbers or arrays in double precision, if its results are as well."""
    if type(op) in _PLAIN:
        return _PLAIN[type(op)]
    if is_vectorized(op):
        return np.vectorize(op.impl)
    *path, name = op.nfunc_spec[0].split(".")
    return getattr(special if path[:1] == ["scipy"] else np, name)


def is_vectorized(op: ScalarOp) -> bool:
    """Whether an operation only has an implementation for numbers, repeated for arrays."""
    return type(op) not in _PLAIN and getattr(op, "nfunc_spec", None) is None


def register_array_function(op: type[ScalarOp], function: Callable[..., np.ndarray]) -> None:
    """Register a function of arrays in double precision as an operation's on data."""
    _PLAIN[op] = function


_PLAIN: dict[type[ScalarOp], Callable[..., np.ndarray]] = {
    scalar.Cast: np.asarray,
    scalar.Identity: np.asarray,
    scalar.Second: lambda x, y: np.broadcast_arrays(x, y)[1],
    # Python's operators take a tenth of the time of NumPy's functions for numbers.
    scalar.Add: lambda *values: reduce(operator.add, values),
    scalar.Mul: lambda *values: reduce(operator.mul, values),
    scalar.Sub: operator.sub,
    scalar.TrueDiv: operator.truediv,
    scalar.Neg: operator.neg,
    scalar.Sqr: lambda x: x * x,
    scalar.Clip: np.clip,
}
#: Rounding error of a sum, relative to its terms: a smaller sum counts as zero.
_CANCELLATION_ERROR = 8.0 * float(np.finfo(np.float64).eps)


def are_close(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Equality of numbers up to the tolerance of :func:`rounded_sum`."""
    with np.errstate(all="ignore"):
        return np.abs(one - other) <= _CANCELLATION_ERROR * (np.abs(one) + np.abs(other))


def rounded_sum(numbers: Sequence[float]) -> float:
    """Sum, or zero if only rounding errors remain, for example 0.1 + 0.2 - 0.3."""
    total = sum(numbers)
    return 0.0 if abs(total) <= _CANCELLATION_ERROR * sum(map(abs, numbers)) else total


def operation_name(op: object) -> str:
    """Name of an operation for messages, without parameters, addresses or wrappers."""
    if isinstance(op, str):
        return op
    if isinstance(op, Blockwise | Elemwise):
        return operation_name(op.core_op if isinstance(op, Blockwise) else op.scalar_op)
    if isinstance(op, scalar.Cast):
        return f"a cast to {op.o_type.dtype}"
    # Scalar operations have names, such as 'exp', or the names of their classes.
    name = re.match(r"\w+", str(op)) if isinstance(op, ScalarOp) else None
    return name[0] if name else type(op).__name__
