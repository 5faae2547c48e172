"""Audits of single mechanisms: votes, users' reports, adjacency entries, messages. One computes finite channels exactly."""
