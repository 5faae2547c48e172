"""Finds the mechanisms of a run: where drawn numbers are added to data, or choose between values of data."""
