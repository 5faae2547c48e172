"""Makes Python look for reference cycles less often, because it looks at every object of the imported libraries."""

import gc

THRESHOLDS = (10_000, 20, 50)  # Python's own are 700, 10, 10; importing the libraries of a run then takes a third longer


def collect_rarely() -> None:
    """Applies to this process and to those that are forked from it. Objects without cycles are freed at once, as before."""
    gc.set_threshold(*THRESHOLDS)
