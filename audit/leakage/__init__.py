"""Membership attacks on a model, and the accuracy of the model."""
