"""Graphs and row functions, compiled to functions of fixed signatures."""

# It tells where PyTensor has no folder to write to; nothing here could be imported then.
import pymc_minibatch_mh.functions.base  # noqa: F401
