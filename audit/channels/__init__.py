"""Audits of single mechanisms: votes, users' reports, adjacency entries, messages; and the exact epsilon of finite channels."""
