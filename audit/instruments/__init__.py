"""Tools that several audits share: the recorder of one training, its repetition without a unit, and the smallest violation that a
test detects.
"""
