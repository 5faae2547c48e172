"""Audits a user's model that does not report its own noise. The recorder records ("hears") the random numbers that the model
draws. These files find which of the numbers act as noise, and compute what follows for the model's claim.
"""
