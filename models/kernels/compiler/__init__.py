"""Compiles loops with Numba, once for each processor, and stores the compiled code in a folder of the user.

Used elsewhere: compiled, compiled.helper, compiled.compiled.
"""
