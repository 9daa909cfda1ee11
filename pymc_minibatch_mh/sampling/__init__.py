"""Runs of chains."""
