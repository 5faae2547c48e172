"""Edge-membership attacks: from posteriors, from queries with changed features, and from features alone."""
