"""Stores the parts of a run, and computes missing ones in this process, in worker processes or on a Ray cluster."""
