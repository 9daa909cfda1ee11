"""The step methods that users touch, and their plumbing into PyMC."""
