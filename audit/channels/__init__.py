"""Audits of single mechanisms: votes, users' reports, adjacency entries, messages; and exact computations of their epsilon."""
