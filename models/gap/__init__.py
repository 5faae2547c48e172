"""GAP, ProGAP and DP-MLP: noisy sums of rows, and stages of small networks on them."""
