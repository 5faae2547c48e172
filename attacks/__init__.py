"""Membership attacks on the releases of models, and the measures of their success."""
