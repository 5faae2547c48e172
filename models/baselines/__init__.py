"""The baselines of the private systems: plain graph networks, randomised response on edges, and DP-GNN.

Used elsewhere: edgerand.EdgeRand, entry.
"""
