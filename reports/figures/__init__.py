"""Plots of a run and of a claim."""
