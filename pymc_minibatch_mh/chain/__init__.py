"""One chain: what it runs on, what it is, and what it learns."""
