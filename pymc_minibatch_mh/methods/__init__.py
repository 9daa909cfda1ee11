"""The methods, one per file: test, guarantee, settings, kernel and what it learns in warm-up."""
