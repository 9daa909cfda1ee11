"""Storage of observations, independent of models."""

from pymc_minibatch_mh.data.arrays import ArrayRows, Column, RowBlock, dtype_in_batch
from pymc_minibatch_mh.data.digests import Contents, array_digest, code_digest

__all__ = [
    "ArrayRows",
    "Column",
    "Contents",
    "RowBlock",
    "array_digest",
    "code_digest",
    "dtype_in_batch",
]
