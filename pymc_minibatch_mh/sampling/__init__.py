"""Sampling with chains as threads: starts, runs, traces and checkpoints."""
