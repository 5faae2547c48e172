"""Looks in Python source for patterns that have broken privacy promises. A hit says "look here"; it is never a verdict.

A line that ends with `# scan: intended` is skipped.
"""
