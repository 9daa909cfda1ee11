"""Moves, each one reversible with respect to a known density."""
