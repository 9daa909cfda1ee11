"""Numbers that are computed ahead of sampling."""
