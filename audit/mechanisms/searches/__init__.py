"""Searches for a leak on other graphs, with other rows of features, and with other noise.

Used elsewhere: other_graphs.suspicious, other_rows.leaks_with_other_rows.
"""
