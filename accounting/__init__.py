"""Upper and lower bounds on epsilon. This package does not use graphs."""
