"""Scores of canaries whose distribution is known: likelihood ratios and a linear discriminant."""
