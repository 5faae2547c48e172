"""Chooses the secrets that are removed from a graph: edges, nodes, and the rows in which an absent node shows.

Used elsewhere: worlds.Absence, worlds.UNUSUAL, worlds.public_bound, worlds.without_one.
"""
