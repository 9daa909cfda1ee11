"""Coordinates in which observations are linear, or smooth at the end of the support."""
