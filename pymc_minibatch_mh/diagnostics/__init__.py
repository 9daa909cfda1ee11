"""Forecasts for a model before sampling, and diagnostics of a trace after it."""
