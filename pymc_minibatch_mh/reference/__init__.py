"""Posterior mode, normal approximation and expansions around it for the control variates."""
