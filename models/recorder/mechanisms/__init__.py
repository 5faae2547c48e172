"""Finds the mechanisms of a run: the operations that add drawn numbers to data, or use them to choose between values of data.

Used elsewhere: mechanism.Mechanism, mechanism.REPORT, found.Mechanisms, found.OtherMechanisms.
"""
