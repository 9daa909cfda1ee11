"""Bounds on their way to other processes: large ones in a file that all of them map."""

import logging
from typing import Any

import numpy as np

from pymc_minibatch_mh.data.mapped import MappedArrays

#: Bytes of bounds up to which a pickle holds them.
SMALL = 2**20

_log = logging.getLogger("pymc")


def shipped(c: np.ndarray, mapped: Any) -> np.ndarray | MappedArrays | None:
    """Return what a pickle holds of bounds: all, where they are, or nothing if no file takes them.

    Parameters
    ----------
    c : ndarray of float32, shape (T, N)
    mapped
        Returns them, and their alias tables, in a file.
    """
    if c.nbytes <= SMALL:
        return c
    try:
        return mapped()
    except OSError as error:
        _log.warning(
            "Bounds of %s bytes cannot be written to a temporary file (%s), so that each process "
            "derives its own. Free space, or set TMPDIR.",
            f"{c.nbytes:,}",
            error,
        )
        return None


def received(c: np.ndarray | MappedArrays | None) -> dict[str, Any]:
    """Return bounds, and alias tables where they were sent along.

    Raises
    ------
    FileNotFoundError
        If there is no file, or none any more, as in a later session.
    """
    if c is None:
        raise FileNotFoundError("bounds were not sent along")
    if isinstance(c, np.ndarray):
        return {"c": c}
    arrays = c.read()
    return {"c": arrays["c"], "alias": (arrays["thresholds"], arrays["aliases"]), "_mapped": c}
