"""What is computed of chosen rows at the draws of a trace."""
