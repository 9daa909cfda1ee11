"""Compilation of graphs and row functions to functions of fixed signatures."""

# Imported first: it reports a cache folder to which PyTensor cannot write.
import pymc_minibatch_mh.functions.base  # noqa: F401
