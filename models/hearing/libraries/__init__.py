"""Records the draws of one library each: NumPy, Python's `random`, SciPy, PyTorch."""
