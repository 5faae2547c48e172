"""Plans a run: its options, its cases (models with claims), the epsilon of each case by every accountant, and its folder."""
