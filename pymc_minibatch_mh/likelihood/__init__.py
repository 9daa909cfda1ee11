"""A model as a prior and one expression per observation."""
