"""Audits of single mechanisms: votes, users' reports, adjacency entries and messages. One audit computes the exact epsilon of
finite channels.

Used elsewhere: entries, exact, transcript, user_reports, votes.
"""
