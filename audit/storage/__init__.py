"""Stores the parts of a run, and computes missing ones in this process, in worker processes or on a Ray cluster.

Used elsewhere: store.Store, executor.executor, executor.helpers.
"""
