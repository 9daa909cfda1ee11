"""Samplers: the update of a chain, the loop that repeats it, and its adaptation."""
