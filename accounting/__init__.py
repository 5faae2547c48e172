"""What epsilon is, from either side. Knows nothing of graphs."""
