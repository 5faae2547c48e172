"""Random numbers: one stream for each run and purpose, and a record of what was drawn as noise.

Used elsewhere: streams.stream, witness, streams.fold.
"""
