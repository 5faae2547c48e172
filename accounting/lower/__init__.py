"""Lower bounds on epsilon from scores, bits, counts or residuals. This package needs neither graphs nor torch."""
