"""Upper and lower bounds on epsilon. Knows nothing of graphs."""
