"""The acceptance tests, one per file: pure functions of what a batch showed."""
