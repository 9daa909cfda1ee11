"""Bounds of what the surrogates leave out, over boxes of parameters."""
