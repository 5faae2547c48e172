"""Membership attacks on a model, and its utility."""
