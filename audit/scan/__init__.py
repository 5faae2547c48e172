"""Searches Python source for patterns that have broken privacy promises. A hit is a place to check, never a verdict.

A line that ends with `# scan: intended` is skipped.

Used elsewhere: rules.RULES, scanner.
"""
