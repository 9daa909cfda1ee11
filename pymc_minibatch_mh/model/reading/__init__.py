"""Reading a PyMC model: what is subsampled, and the proof that its rows are apart."""
