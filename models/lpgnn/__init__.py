"""LPGNN: every user perturbs its own features and label before it sends them.

Used elsewhere: lpgnn.Lpgnn, ldp, entry.
"""
