"""Where parts of a run lie, and who computes the missing ones: this process, worker processes, or a Ray cluster."""
