"""Sums over neighbours for many runs at once: plain, normalised, weighted, and as block-diagonal matrices."""
