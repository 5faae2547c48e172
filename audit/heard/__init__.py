"""Audits a user's model without its help: records the random numbers that it draws, finds where they act as noise, and computes
what follows for its claim. "Heard" means recorded in this way.
"""
