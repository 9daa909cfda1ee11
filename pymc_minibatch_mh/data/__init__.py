"""Where rows live. Knows nothing of models."""

from pymc_minibatch_mh.data.arrays import ArrayRows, Column, dtype_once_read

__all__ = ["ArrayRows", "Column", "dtype_once_read"]
