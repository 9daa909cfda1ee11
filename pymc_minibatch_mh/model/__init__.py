"""A PyMC model becomes functions: read, its rows taken apart, compiled."""
