"""Are two nodes joined by an edge? Attacks from posteriors, from answers to moved features, and from features alone."""
