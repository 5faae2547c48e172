"""Training of many runs at the same time: layers, networks, Adam, DP-SGD."""
