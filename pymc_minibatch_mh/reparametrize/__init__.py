"""Coordinates in which rows are linear, or smooth at the end of the support."""
