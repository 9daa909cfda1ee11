"""Draws of a trace, moves from them measured with all rows, and verdicts."""
