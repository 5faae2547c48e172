"""Verdicts from evidence, and the files and tables that report them."""
