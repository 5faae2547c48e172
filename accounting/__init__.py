"""Upper and lower bounds on epsilon. This package knows nothing of graphs."""
