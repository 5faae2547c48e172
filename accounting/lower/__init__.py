"""Lower bounds on epsilon from scores, bits, counts or residuals. Needs neither graphs nor torch."""
