"""Finds out whether differentially private graph neural networks are as private as they claim."""

__version__ = "0.1.0"
