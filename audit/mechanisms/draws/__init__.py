"""What the other draws of a run do: noise that the recorder lost, switches, noise that is cut off, and seeds of noise.

Used elsewhere: lost.mixed, steady.other_scripts, noise_law.law_of, lost.lost.
"""
