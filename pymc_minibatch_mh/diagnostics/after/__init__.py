"""Quantities of chosen rows at the draws of a trace."""
