"""Records the draws of NumPy, Python's standard library, SciPy and PyTorch, in one file for each library."""
