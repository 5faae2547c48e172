"""What a model that nobody adapted does with the random numbers that it draws, and what follows for its claim."""
