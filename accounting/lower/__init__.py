"""Lower bounds on epsilon from scores, bits, counts or residuals. This package needs neither graphs nor torch.

Used elsewhere: bounds.Bound, bounds.resting, bounds.unknown, one_run.canaries.
"""
