"""How many groups stored rows are in, which a model has to know before it is written."""

import numpy as np

from pymc_minibatch_mh.data.stored import BLOCK_ROWS, Storage
from pymc_minibatch_mh.errors import SourceError
from pymc_minibatch_mh.progress import counting

_STORE = "Store numbers 0, 1, 2 and so on, as np.unique(..., return_inverse=True) gives them"


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
    with counting(f"Counting the groups of {name!r}", -(-n_rows // BLOCK_ROWS)) as advance:
        for first in range(0, n_rows, BLOCK_ROWS):
            block = slice(first, min(first + BLOCK_ROWS, n_rows))
            numbers = storage.read([name], block)[name].reshape(block.stop - first, -1)
            _require_numbers(storage, name, first, numbers)
            if numbers.max() > largest:
                largest = int(numbers.max())
                where = first + int(np.argmax(numbers.max(axis=1)))
            advance()
    if largest >= n_rows:
        raise SourceError(
            f"{name!r} is {largest} in {storage.where(where)}, but there are only {n_rows:,} rows: "
            f"most of so many groups would have none. {_STORE}, or declare the number of groups "
            "that is meant."
        )
    return largest


def _require_numbers(storage: Storage, name: str, first: int, numbers: np.ndarray) -> None:
    wrong = numbers < 0
    if numbers.dtype.kind == "f":
        # Also what is not a number, which no comparison holds for.
        wrong = ~((numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise SourceError(
            f"{name!r} is {numbers[row, column]} in {storage.where(first + int(row))}, which is no "
            f"number of a group. {_STORE}."
        )
