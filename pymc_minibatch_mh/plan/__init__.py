"""Everything that is computed once before a chain runs."""
