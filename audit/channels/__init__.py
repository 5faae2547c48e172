"""Audits of single mechanisms: votes, users' reports, adjacency entries, messages, and finite channels by enumeration."""
