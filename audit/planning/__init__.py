"""Plans a run: its options, the models with their claims as cases, the epsilon of each by every accountant, and its folder."""
