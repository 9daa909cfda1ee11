"""Published methods for comparisons, on the contracts of samplers, methods and bounds alone."""
