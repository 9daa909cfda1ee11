"""How many groups stored rows are in, which a model has to know before it is written."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.data.storage import Part, Storage, computed
from pymc_minibatch_mh.data.stored import BLOCK_ROWS
from pymc_minibatch_mh.errors import SourceError
from pymc_minibatch_mh.progress import counting

_STORE = "Store numbers 0, 1, 2 and so on, as np.unique(..., return_inverse=True) gives them"


def said_of(number: float) -> str:
    """Return what may explain the number of a group that is none, as a further sentence."""
    if number != -1:
        return ""
    return " -1 is pandas' code for a missing category: drop its rows, or number it as a group."


def largest_group(storage: Storage, name: str) -> int:
    """Return the largest number of a group, read in one pass over blocks of rows.

    Parameters
    ----------
    storage
        Where the rows lie.
    name
        The array of the groups' numbers.

    Raises
    ------
    SourceError
        If one is no integer of 0 or more, or there are fewer rows than groups; names the row.
    """
    largest, where, n_rows = -1, 0, storage.n_rows
    starts = range(0, n_rows, BLOCK_ROWS)
    parts = [Part(slice(k, min(k + BLOCK_ROWS, n_rows)), _OfBlock(name)) for k in starts]
    with counting(f"Counting the groups of {name!r}", len(parts)) as advance:
        for first, found in zip(starts, computed(storage, [name], parts, _STORED), strict=True):
            number, row, is_one = found
            if not is_one:
                raise SourceError(
                    f"{name!r} is {number} in {storage.where(first + row)}, which is no number of "
                    f"a group. {_STORE}.{said_of(number)}"
                )
            if number > largest:
                largest, where = int(number), first + row
            advance()
    if largest >= n_rows:
        raise SourceError(
            f"{name!r} is {largest} in {storage.where(where)}, but there are only {n_rows:,} rows: "
            f"most of so many groups would have none. {_STORE}, or declare the number of groups "
            "that is meant."
        )
    return largest


class _Stored:
    """What blocks share: nothing."""


_STORED = _Stored()


@dataclass(frozen=True)
class _OfBlock:
    """Finds the first number of a block that is no group's, or else the largest, and its row."""

    name: str

    def __call__(
        self, shared: _Stored, arrays: Mapping[str, np.ndarray]
    ) -> tuple[int | float, int, bool]:
        numbers = arrays[self.name]
        numbers = numbers.reshape(len(numbers), -1)
        wrong = numbers < 0
        if numbers.dtype.kind == "f":
            # Also what is not a number, which no comparison holds for.
            wrong = ~((numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers))
        place = np.argmax(wrong if wrong.any() else numbers)
        row, column = np.unravel_index(place, numbers.shape)
        return numbers[row, column].item(), int(row), not wrong.any()
