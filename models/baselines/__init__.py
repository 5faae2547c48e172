"""What the private systems are compared with: plain graph networks, randomised response on edges, and DP-GNN."""
