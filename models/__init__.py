"""Graphs, worlds, and the systems under audit."""
