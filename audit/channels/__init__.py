"""Audits of single mechanisms: votes, users' reports, adjacency entries and messages; and the exact epsilon of finite
channels.
"""
