"""Training for many runs in step: layers, networks, Adam, DP-SGD."""
