"""Model-independent loops in C: see ``mh.h`` first."""
