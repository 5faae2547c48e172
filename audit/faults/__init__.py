"""Privacy faults planted in real models, which `audit selftest` must catch, and honest models, which must pass."""
