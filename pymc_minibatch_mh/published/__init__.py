"""Published methods for comparisons, built on the contracts of samplers, methods and bounds."""
