"""The claims, experiments and texts of the findings. Each file is about one system or one kind of system.

Used elsewhere: all_findings.FINDINGS.
"""
