"""What arrays of rows have to be, wherever they lie."""

from collections.abc import Iterable, Mapping

import numpy as np

from pymc_minibatch_mh.errors import SettingError


def native_type(what: str, dtype: np.dtype) -> np.dtype:
    """Return the type that numbers have once they are read: as stored, in this machine's order.

    Parameters
    ----------
    what
        What has the type, for messages.
    dtype
        The type.

    Raises
    ------
    SettingError
        If these are no real numbers, or floats that compiled code does not read.
    """
    if dtype.kind not in "fiub":
        raise SettingError(
            f"{what} has type {dtype}. Give real numbers: floats, integers or bools."
        )
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        raise SettingError(
            f"{what} has type {dtype}, and compiled code reads floats of 32 or 64 bits. Store it "
            "as float32 or float64."
        )
    return dtype.newbyteorder("=")


def require_names(what: str, names: Iterable[str]) -> None:
    """Refuse to make rows of no array.

    Raises
    ------
    SettingError
        Naming what holds none.
    """
    if not list(names):
        raise SettingError(f"{what} has no arrays. Name some, such as X and y.")


def common_length(lengths: Mapping[str, int]) -> int:
    """Return the number of rows that all arrays have.

    Parameters
    ----------
    lengths
        What an array is, for messages -> its length.

    Raises
    ------
    SettingError
        If there are none, or they differ.
    """
    (first, length), *others = lengths.items()
    for what, n_rows in lengths.items():
        if not n_rows:
            raise SettingError(f"{what} has no rows. Give an array with some.")
    for what, n_rows in others:
        if n_rows != length:
            raise SettingError(
                f"{what} has {n_rows:,} rows, and {first} has {length:,}. Give arrays of one "
                "length."
            )
    return length
