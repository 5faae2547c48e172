"""Scores of planted secrets whose distribution is known: likelihood ratios and a linear discriminant."""
