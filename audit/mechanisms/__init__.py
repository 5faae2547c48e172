"""Judges the mechanisms within a run of a user's model: where the run adds recorded noise to data. Repetitions without a
secret show how far the secret moves the data of each mechanism, and what else shows or hides it.
"""
