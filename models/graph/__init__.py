"""Graphs, and many subgraphs of one graph as masks."""
