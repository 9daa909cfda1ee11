"""Storage of observations, independent of models."""

from pymc_minibatch_mh.data.arrays import ArrayRows, Column, RowBlock, dtype_once_read
from pymc_minibatch_mh.data.digests import Contents, code_digest, digest

__all__ = [
    "ArrayRows",
    "Column",
    "Contents",
    "RowBlock",
    "code_digest",
    "digest",
    "dtype_once_read",
]
