"""DPAR: private personalised PageRank rows, then DP-SGD on them."""
