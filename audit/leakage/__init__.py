"""Membership attacks on a model, and the accuracy of the model.

Used elsewhere: pool.Measured, pool.membership, utility.utility.
"""
