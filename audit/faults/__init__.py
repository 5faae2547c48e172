"""Planted privacy faults that `audit selftest` must detect, and honest recipes that it must not blame."""
