"""Verdicts from evidence, and the files and tables that report them.

Used elsewhere: rounding.several, results.Results, results.SkippedRow, rounding.up, rounding.down, summary.UNITS, files.plain,
summary.Line, summary.name, files.write_text, results.AttackRow, results.UtilityRow.
"""
