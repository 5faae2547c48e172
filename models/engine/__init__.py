"""Training of many runs at the same time: layers, networks, Adam, DP-SGD.

Used elsewhere: adam.Adam, network.Network, run_batches.RunGroup, dropout.Dropout, gnn_layers.Values, network.draw.
"""
