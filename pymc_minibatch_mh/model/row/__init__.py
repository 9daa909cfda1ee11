"""The row function: the log-likelihood of one row as cells, and their algebra."""
