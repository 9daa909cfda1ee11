"""One chain: its program, its state, and its adaptation."""
