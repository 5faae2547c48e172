"""Upper bounds on the epsilon of a ledger: accountants, trade-off curves and the calibration of noise."""
