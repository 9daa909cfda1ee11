"""Dependence of observations and of the prior on coordinates."""
