"""Was a node in the training graph? Attacks from posteriors, with and without shadow models."""
