"""A user's own program as a model: its declaration, its files and arrays, its supervised runs, and what they recorded.

Used elsewhere: files.claim_of, program.External, recording.Request.
"""
