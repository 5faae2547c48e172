"""Membership attacks on the releases of models, and the measures of their success.

Used elsewhere: base.Challenge, base.Pilot, signals.logs, base.Untrained, base.learnt, base.OneQuery, base.shadows_of.
"""
