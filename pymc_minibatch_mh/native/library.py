"""Compiled library, loaded once per process, and its functions for Python."""

import ctypes
import re
from collections import namedtuple
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, cast

import numpy as np
from cffi import FFI

from pymc_minibatch_mh.native import compiler

#: Headers with all declarations of records and functions.
HEADERS = ("mh.h", "leaves.h", "functions.h")


def read_declarations() -> str:
    """Declarations of the headers for cffi, which has no preprocessor."""
    whole = "".join((compiler.FOLDER / name).read_text("utf-8") for name in HEADERS)
    leaf = r"^LEAF\(\w*, (\w+), (\w+), (\(.*?\)), .*$"
    whole = re.sub(leaf, r"\1 \2\3;", whole, flags=re.MULTILINE)
    return re.sub(r"^(#|MH_LEAVES).*$", "", whole, flags=re.MULTILINE)


ffi = FFI()
ffi.cdef(read_declarations())


@cache
def load_library() -> Any:
    """Library of these sources; a checkout compiles it after changes.

    ImportError if there is none and none can be compiled, if it cannot be loaded, or if it belongs
    to other sources.
    """
    try:
        place = compiler.build()
    except OSError as reason:
        raise ImportError(f"pymc_minibatch_mh lacks its compiled library: {reason}") from reason
    try:
        found = ffi.dlopen(str(place))
    except OSError as reason:
        raise ImportError(
            f"pymc_minibatch_mh's compiled library cannot be loaded: {reason}. It is damaged, or "
            f"of another platform. Install the package again; in a checkout, delete {place}."
        ) from reason
    _require_same(found)
    found.mh_use_set(found.mh_widest_set())
    return found


def _require_same(library: Any) -> None:
    """Raise ImportError if library and headers differ."""
    compiled = ffi.string(library.mh_digest()).decode()
    if compiled != compiler.digest():
        raise ImportError(
            f"the library was compiled from other sources ({compiled}, not {compiler.digest()}). "
            "Install the package again."
        )
    layout, sizes = library.mh_layouts(), {}
    while layout.name != ffi.NULL:
        sizes[ffi.string(layout.name).decode()] = layout.size
        layout += 1
    # cffi parses all declarations anew for each type that it is asked for: these are one type.
    records = ffi.typeof(f"struct {{ {' '.join(f'{name} _{name};' for name in sizes)} }}")
    for (name, size), (_, field) in zip(sizes.items(), records.fields, strict=True):
        if ffi.sizeof(field.type) != size:
            raise ImportError(
                f"the record {name} has {size} bytes in the library, and "
                f"{ffi.sizeof(field.type)} in its header. Install the package again."
            )


#: NumPy types of arrays by C type.
NUMBERS = {"double": "f8", "float": "f4", "int64_t": "i8", "int32_t": "i4", "int8_t": "i1"}


class LaidOut:
    """A C record, which keeps its arrays and records alive.

    Parameters
    ----------
    kind : str
        Name of the C record.
    record
        An object with the same fields; if it has no `n_x`, this is the length of its `x`. Or a
        list of such objects, which become consecutive records.
    """

    def __init__(self, kind: str, record: Any) -> None:
        self.record = record
        self._kept: list[Any] = []
        if isinstance(record, list):
            self.at = _pointed_to(ffi.typeof(f"{kind} *"), record, self._kept)
        else:
            self.at = ffi.new(f"{kind} *", _stored_fields(ffi.typeof(kind), record, self._kept))


def _stored_fields(kind: Any, record: Any, kept: list[Any]) -> dict[str, Any]:
    return {name: c_value(field.type, _value_of(record, name), kept) for name, field in kind.fields}


def _value_of(record: Any, name: str) -> Any:
    if name.startswith("n_") and not hasattr(record, name):
        return len(getattr(record, name[2:]))
    return getattr(record, name)


def c_value(kind: Any, value: Any, kept: list[Any]) -> Any:
    """C representation of a value; everything that it points to is added to `kept`.

    A function is an address, an object with an address, or the name of a library function.
    TypeError if an array is not contiguous, or has another type than C takes.
    """
    if kind.kind not in ("pointer", "function"):
        return _stored_fields(kind, value, kept) if kind.kind == "struct" else value
    if isinstance(value, np.ndarray):
        kept.append(value)
        return _array_pointer(kind, value)
    if value is None:
        return ffi.NULL
    if isinstance(value, LaidOut):
        kept.append(value)
        return ffi.cast(kind, value.at)
    if isinstance(value, str):
        return ffi.cast(kind, getattr(load_library(), value))
    if kind.kind == "pointer" and kind.item.kind == "struct" and not isinstance(value, int):
        return _pointed_to(kind, value, kept)
    address = getattr(value, "address", value)  # numba's cfunc has this attribute
    if address is not value:
        kept.append(value)
    return ffi.cast(kind, address)


def _pointed_to(kind: Any, value: Any, kept: list[Any]) -> Any:
    """Address of a record, or of several consecutive records."""
    several = isinstance(value, list) or type(value) is tuple
    records = [_stored_fields(kind.item, one, kept) for one in (value if several else [value])]
    made = ffi.new(f"{kind.item.cname}[]", records)
    kept.append(made)
    return made


def _array_pointer(kind: Any, value: np.ndarray) -> Any:
    dtype = _entries_of(kind)
    if dtype is not None and value.dtype != dtype:
        raise TypeError(f"an array of {value.dtype} where {kind.cname} is taken")
    if not value.flags.c_contiguous:
        raise TypeError(f"an array that is not C-contiguous where {kind.cname} is taken")
    return ffi.from_buffer(kind, value)


@cache
def _entries_of(kind: Any) -> np.dtype | None:
    """NumPy type of the arrays that a pointer takes; None if it takes any."""
    name = kind.item.cname
    if kind.item.kind == "function":
        return np.dtype("i8")
    if name == "void":
        return None
    return np.dtype(NUMBERS[name]) if name in NUMBERS else dtype_of(name)


#: Status codes that library functions return: ``mh_status``.
Status = cast(Any, IntEnum)(
    "Status", {name.removeprefix("MH_"): k for name, k in ffi.typeof("mh_status").relements.items()}
)


@cache
def dtype_of(name: str) -> np.dtype:
    """NumPy type of a C record, by its name. Pointers are integers."""
    kinds = [(field, x.type) for field, x in ffi.typeof(name).fields]
    return np.dtype(
        [
            (field, dtype_of(x.cname) if x.kind == "struct" else NUMBERS.get(x.cname, "i8"))
            for field, x in kinds
        ]
    )


def record_of(kind: str) -> Any:
    """Base class of named tuples with the fields of a C record, except its counts `n_...`."""
    names = (name for name, _ in ffi.typeof(kind).fields)
    return namedtuple(kind, [name for name in names if not name.startswith("n_")])


@cache
def function(name: str) -> Callable[..., Any]:
    """Library function that takes arrays and records of Python.

    Scratch memory as the last argument is allocated for the call and freed. MemoryError if there is
    no memory; any other status is returned.
    """
    called = getattr(load_library(), name)
    kinds = ffi.typeof(called).args
    takes_scratch = bool(kinds) and kinds[-1].cname == "mh_arena *"
    returns_status = ffi.typeof(called).result.cname == "mh_status"

    def with_arrays(*arguments: Any) -> Any:
        kept: list[Any] = []
        taken = kinds[:-1] if takes_scratch else kinds
        given = [c_value(kind, x, kept) for kind, x in zip(taken, arguments, strict=True)]
        if not takes_scratch:
            found = called(*given)
        else:
            arena = Arena()
            found = called(*given, arena.at)
        if returns_status and found == Status.NO_MEMORY:
            raise MemoryError(f"there is no memory for {name}")
        return found

    return with_arrays


class FunctionAt:
    """A function at an address, of a type in the headers, called like the library's functions.

    Parameters
    ----------
    kind : str
        Name of the C type.
    source
        Compiled object with an `address`, which is kept alive.
    """

    def __init__(self, kind: str, source: Any) -> None:
        self.source = source
        self.address = int(source.address)
        self._called = ffi.cast(kind, self.address)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function with arrays and records of Python."""
        kept: list[Any] = []
        kinds = ffi.typeof(self._called).args
        return self._called(*(c_value(k, x, kept) for k, x in zip(kinds, arguments, strict=True)))


class Arena:
    """Scratch memory of the library, freed with this object."""

    def __init__(self) -> None:
        made = load_library().mh_arena_new()
        if made == ffi.NULL:
            raise MemoryError("there is no memory for the scratch of a chain")
        self.at = ffi.gc(made, load_library().mh_arena_free)


#: NumPy's C functions that draw random numbers; keys are fields of the generator's record.
_DISTRIBUTIONS = {
    "standard_normal": "random_standard_normal",
    "standard_exponential": "random_standard_exponential",
    "standard_gamma": "random_standard_gamma",
    "poisson": "random_poisson",
    "bounded_uint64": "random_bounded_uint64",
}


@cache
def _distribution_addresses() -> dict[str, int]:
    """Addresses of NumPy's distributions; ImportError if NumPy does not export them."""
    numpys = ctypes.CDLL(np.random._generator.__file__)
    try:
        functions = {field: getattr(numpys, name) for field, name in _DISTRIBUTIONS.items()}
    except AttributeError as missing:
        raise ImportError(
            f"NumPy {np.__version__} does not export its distributions ({missing}), which compiled "
            "updates draw from. Install NumPy 2.0 or later from a wheel."
        ) from missing
    return {field: ctypes.cast(f, ctypes.c_void_p).value or 0 for field, f in functions.items()}


class GeneratorRecord:
    """A NumPy generator as the library's ``mh_generator``, which keeps it alive."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.bits = rng.bit_generator.ctypes.bit_generator.value
        for field, address in _distribution_addresses().items():
            setattr(self, field, address)

    def __reduce__(self) -> tuple:
        """Pickle the generator only: a copy needs the addresses of its own generator."""
        return GeneratorRecord, (self.rng,)
