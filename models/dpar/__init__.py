"""DPAR: noisy personalised PageRank rows, then DP-SGD on lists of nodes that these rows choose."""
