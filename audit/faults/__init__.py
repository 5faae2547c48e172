"""Privacy faults that are planted in real models. `audit selftest` must catch them, and must pass the honest models.

Used elsewhere: as_strangers.everything, as_strangers.whole_run, fault.Fault, planted.FAULTS, planted.HONEST.
"""
