"""The reference of all rows: the mode, the normal approximation and control variates."""
