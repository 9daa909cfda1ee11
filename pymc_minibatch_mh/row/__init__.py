"""The row function: the log-likelihood of one row as compiled functions of a few numbers."""
