"""Chooses the secrets that are removed from a graph: edges, nodes, and the rows in which an absent node shows."""
