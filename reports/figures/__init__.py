"""Plots of a run and of a claim.

Used elsewhere: style.Plot, accountant_rows.Cost, accountant_rows.costs.
"""
