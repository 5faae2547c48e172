"""What a mechanism costs at least: from scores, bits, counts or residuals to a lower bound on epsilon. No graphs, no torch."""
