"""Upper bounds on the epsilon of a ledger: accountants, trade-off curves and the calibration of noise."""

from .accountants import ACCOUNTANTS, Upper, tightest, upper
from .calibration import calibrate
