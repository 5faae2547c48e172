"""What an adversary sees of noisy values: which are granted, of which directions alone show, and what hides a move."""
