"""What is asked of a trace after sampling, for rows that are chosen."""
