"""What rows are expanded around: the mode, the normal approximation and control variates."""
