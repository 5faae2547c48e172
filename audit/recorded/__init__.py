"""Audits a user's model that does not report its own noise. The recorder records the random numbers that the model
draws. These files find out which of the numbers act as noise, and derive bounds on the model's epsilon from them.

Used elsewhere: study.History, study.Shifts, laws.NOTHING, playing.Cell, playing.Diverged, playing.play, study.Study,
playing.rounding, playing.Play, laws.cost, playing.left_in.
"""
