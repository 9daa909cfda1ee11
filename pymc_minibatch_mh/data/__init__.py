"""Where the rows of the data live."""

from pymc_minibatch_mh.data.arrays import ArrayRows, Column

__all__ = ["ArrayRows", "Column"]
