"""Tools that several audits share: they record a training, repeat it without a unit, and compute the smallest violation that a
test detects.

Used elsewhere: reach.worth, reported_run.recorded, reach.UNREPORTED.
"""
