"""Questions to a model before sampling, and to a trace after it."""
