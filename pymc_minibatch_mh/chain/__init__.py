"""One chain: its shared program, its state and its adaptation."""
