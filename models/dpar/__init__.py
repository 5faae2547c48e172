"""DPAR: noisy personalised PageRank rows, then DP-SGD on lists of nodes that these rows choose.

Used elsewhere: dpar.Dpar, entry, list_dpsgd.How.
"""
