"""GAP, ProGAP and DP-MLP: noisy sums over neighbours, and small networks that learn from these sums.

Used elsewhere: gap.Gap, mlp.Mlp, common.
"""
