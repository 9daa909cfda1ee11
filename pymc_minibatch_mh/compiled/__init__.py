"""Compilation of graphs and row functions to functions of fixed signatures."""

# It configures PyTensor's folder, before any import that writes there.
import pymc_minibatch_mh.functions.base  # noqa: F401
