"""Bounds on the epsilon of a user's model, from the random draws and the mechanisms that the recorder found in its training.

Used elsewhere: program_seeds, released_noise, sampled_steps, within_run.
"""
