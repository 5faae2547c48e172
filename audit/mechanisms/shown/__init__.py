"""What a release shows of noisy values: all of them, a part that is a linear function, or nothing that is known."""
