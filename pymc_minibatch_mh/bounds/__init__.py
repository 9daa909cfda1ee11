"""Bounds of the remainders of rows, over boxes of parameters."""
