"""What is found out before sampling: by reading a model, and by passes over all of its rows."""
