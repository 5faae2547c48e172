"""Graphs, and many subgraphs of one graph as masks.

Used elsewhere: graph.Graph, graph.Worlds, graph.Mask, graph.Features, graph.dense, graph.stored_as, graph.stored_like.
"""
