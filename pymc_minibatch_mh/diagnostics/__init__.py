"""What is asked of a model before sampling, and of a trace after it."""
