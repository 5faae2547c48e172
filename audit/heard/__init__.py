"""Audits a user's model without its help: records the random numbers that it draws, finds where they act as noise, and what
follows for its claim.
"""
