"""A PyMC model as a prior and conditionally independent observations."""
