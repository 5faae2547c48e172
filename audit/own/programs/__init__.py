"""A user's own program as a model: its declaration, its files and arrays, its supervised runs, and what they recorded."""
