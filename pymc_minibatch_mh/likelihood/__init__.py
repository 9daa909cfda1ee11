"""Reading a PyMC model: what is subsampled, rebuilt for a batch and compiled."""
