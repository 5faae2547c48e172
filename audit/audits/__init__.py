"""The audits. Each computes lower bounds on epsilon from a model, or states why it cannot.

Used elsewhere: registry.AUDITS, registry.Audit.
"""
