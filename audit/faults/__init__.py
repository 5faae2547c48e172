"""Privacy faults that are planted in real models. `audit selftest` must catch them, and must pass the honest models."""
