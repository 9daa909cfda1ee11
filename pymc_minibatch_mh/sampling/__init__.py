"""What surrounds a run of chains."""
