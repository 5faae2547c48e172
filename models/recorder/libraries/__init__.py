"""Records the draws of NumPy, Python's standard library, SciPy and PyTorch, in one file for each library.

Used elsewhere: of_numpy, of_python, of_scipy, of_system.entropy_of, of_torch, masks_torch.Masks,
of_system.seed_global_generators, of_system.seeded_torch.
"""
