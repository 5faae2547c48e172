"""Judges the mechanisms within a run of a user's model: where the run adds recorded noise to data. Repetitions without a
secret show how far the secret moves the data of each mechanism, and what else shows or hides it.

Used elsewhere: inside.Inside, reading.repeated, absence.history, absence.Incomparable, reading.alike, inside.moving,
gate.a_strangers, reading.with_other_values.
"""
