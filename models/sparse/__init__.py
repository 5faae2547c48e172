"""Sums over neighbours for many runs at once: plain, normalised, weighted, and as block-diagonal matrices.

Used elsewhere: block_diagonal.Operator, neighbour_sums.Aggregation, normalised_sums.Whole.
"""
