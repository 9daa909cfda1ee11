"""Digests of what arrays hold: of every byte, at about the speed of memory.

They tell whether data are the ones that they were, in this process or in another. They are no
proof against somebody who looks for other data with the same digest.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol, Self

import numpy as np

from pymc_minibatch_mh.threads import in_threads

#: Bytes that are read at a time, and at most copied: those of arrays that are not contiguous.
BLOCK = 2**20


def digest(array: np.ndarray) -> str:
    """Return the digest of an array's type, its shape and every byte, whatever its layout.

    Of each block it takes a cyclic redundancy check and the sum of its 64-bit words. The sum
    changes with any single number, so that such a change is always noticed; the check leaves a
    chance of 2⁻³² to any other change of a block.

    Parameters
    ----------
    array : ndarray
        Numbers of any type, not objects.

    Returns
    -------
    str
        The same in every process.
    """
    whole = hashlib.blake2b(f"{array.dtype.str} {array.shape}".encode(), digest_size=16)
    blocks = list(_blocks(array))
    if len(blocks) == 1:
        whole.update(_of_block(blocks[0]))
        return whole.hexdigest()
    # Both sums release Python's lock.
    whole.update(b"".join(in_threads(_of_block, blocks)))
    return whole.hexdigest()


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the parts of an array in C order; where they end follows from its shape alone."""
    row = array.nbytes // len(array) if array.ndim and len(array) else array.nbytes
    if array.nbytes <= BLOCK or not array.ndim:
        yield array
    elif row > BLOCK:
        for part in array:
            yield from _blocks(part)
    else:
        step = BLOCK // row
        for first in range(0, len(array), step):
            yield array[first : first + step]


def _of_block(block: np.ndarray) -> bytes:
    data = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
    end = data.size // 8 * 8
    words, rest = data[:end].view("<u8"), data[end:].tobytes()
    total = int(words.sum(dtype=np.uint64)) + int.from_bytes(rest, "little")
    return b"%08x %016x" % (zlib.crc32(data), total % 2**64)


class Stamped(Protocol):
    """What tells its contents from others by itself."""

    @property
    def stamp(self) -> str:
        """Equal where the contents are."""


@dataclass(frozen=True)
class Contents:
    """What some arrays hold, as a value: equal, and equally hashed, where all of them are.

    Parameters
    ----------
    digests
        Name and digest of each array, in an order that is part of the value.
    """

    digests: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, arrays: Iterable[tuple[str, np.ndarray | Stamped]]) -> Self:
        """Read arrays, or the stamps of what is stored, given with their names."""
        return cls(
            tuple(
                (name, digest(array) if isinstance(array, np.ndarray) else array.stamp)
                for name, array in arrays
            )
        )

    def difference(self, other: Self) -> str:
        """Return the name of the first array that differs, or an empty string."""
        for own, their in zip_longest(self.digests, other.digests, fillvalue=("", "")):
            if own != their:
                return own[0] or their[0]
        return ""
