"""What several audits measure with: the recorder of one training, its repetition without a unit, and the smallest violation
that a test detects.
"""
