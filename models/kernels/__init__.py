"""Loops over plain arrays that Numba compiles for the machine's processor."""
