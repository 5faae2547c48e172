"""Judges the mechanisms within a run of a user's model: where the run adds recorded noise to data. Repetitions without a
secret show how far the secret moves the data of each mechanism, and what else shows or hides it.

Used elsewhere: inside.Inside, reading.repeated, absence.history, absence.kept, absence.Incomparable, reading.alike,
inside.moving, reading.with_other_values.
"""
