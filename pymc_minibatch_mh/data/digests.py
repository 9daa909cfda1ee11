"""Digests of all bytes of arrays, at about the speed of memory.

They identify data across processes, but are not secure against an adversary.
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from types import CodeType, FunctionType
from typing import Any, Self

import numpy as np

from pymc_minibatch_mh.threads import map_in_threads

#: Block size in bytes; non-contiguous arrays are copied block by block.
BLOCK_BYTES = 2**20


def array_digest(array: np.ndarray) -> str:
    """Digest of an array's type, shape and all bytes, independent of its layout.

    Each block contributes a cyclic redundancy check and the sum of its 64-bit words. The sum
    detects a change of any single number; the check misses other changes with probability 2⁻³².
    """
    whole = hashlib.blake2b(f"{array.dtype.str} {array.shape}".encode(), digest_size=16)
    # The checksum and the sum release Python's lock, so that threads run in parallel.
    whole.update(b"".join(map_in_threads(_block_digest, list(_array_blocks(array)))))
    return whole.hexdigest()


def _array_blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield blocks of an array in C order; the cuts depend on its shape alone."""
    row = array.nbytes // len(array) if array.ndim and len(array) else array.nbytes
    if array.nbytes <= BLOCK_BYTES or not array.ndim:
        yield array
    elif row > BLOCK_BYTES:
        for part in array:
            yield from _array_blocks(part)
    else:
        step = BLOCK_BYTES // row
        for first in range(0, len(array), step):
            yield array[first : first + step]


def _block_digest(block: np.ndarray) -> bytes:
    data = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
    end = data.size // 8 * 8
    words, rest = data[:end].view("<u8"), data[end:].tobytes()
    total = int(words.sum(dtype=np.uint64)) + int.from_bytes(rest, "little")
    return b"%08x %016x" % (zlib.crc32(data), total % 2**64)


@dataclass(frozen=True)
class Contents:
    """Names and digests of arrays, in order, as a comparable value."""

    digests: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, arrays: Iterable[tuple[str, Any]]) -> Self:
        """Contents of named arrays in memory, or stamps of stored arrays."""
        return cls(
            tuple(
                (name, array_digest(x) if isinstance(x, np.ndarray) else x.stamp)
                for name, x in arrays
            )
        )

    def difference(self, other: Self) -> str:
        """Name of the first different array, or an empty string."""
        for own, their in zip_longest(self.digests, other.digests, fillvalue=("", "")):
            if own != their:
                return own[0] or their[0]
        return ""


def code_digest(function: Callable[..., Any]) -> str:
    """Digest of a function: code, defaults, and all values and functions that it uses."""
    return sha256("\n".join(_function_parts(function, set())).encode()).hexdigest()[:16]


def _function_parts(function: Any, seen: set[int]) -> Iterator[str]:
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, FunctionType) or id(plain) in seen:
        yield type(plain).__name__
        return
    seen.add(id(plain))
    yield from _code_parts(plain.__code__)
    used = [plain.__globals__.get(name) for name in plain.__code__.co_names]
    used += [expr.cell_contents for expr in plain.__closure__ or ()]
    for value in (*used, *(plain.__defaults__ or ())):
        yield from _value_parts(value, seen)


def _value_parts(value: Any, seen: set[int]) -> Iterator[str]:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubc":
        yield array_digest(value)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _value_parts(part, seen)
    elif isinstance(value, frozenset):
        yield repr(sorted(map(repr, value)))
    elif isinstance(value, FunctionType) or hasattr(value, "py_func"):
        yield from _function_parts(value, seen)
    elif isinstance(value, bool | int | float | complex | str | bytes | np.generic | None):
        yield repr(value)


def _code_parts(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        else:
            yield from _value_parts(constant, set())
