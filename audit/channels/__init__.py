"""Audits of elementary channels: votes, users' reports, entries of a graph, messages; and what they are worth exactly."""
