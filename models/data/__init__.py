"""Loads a checked graph from a name or a path: downloads, readers of file formats, and generated graphs.

Used elsewhere: loading.load, loading.describe, loading.load_described.
"""
