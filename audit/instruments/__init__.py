"""Tools that several audits share: the recorder of one training, the repetition of a training without a unit, and the smallest
violation that a test detects.
"""
