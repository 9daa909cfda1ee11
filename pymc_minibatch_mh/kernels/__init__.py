"""Compiled loops that know no model, no proposal and no test."""
