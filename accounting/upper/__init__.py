"""Upper bounds on the epsilon of a ledger: accountants, trade-off curves and the calibration of noise.

Used elsewhere: tradeoff.Curve, tradeoff.curve, calibration.calibrate.
"""
