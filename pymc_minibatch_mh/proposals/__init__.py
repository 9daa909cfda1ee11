"""Proposals, each reversible with respect to a known density."""
