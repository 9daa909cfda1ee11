"""Loops that know no model, in C: read ``mh.h`` first."""
