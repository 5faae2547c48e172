"""What an adversary sees of noisy values: which are granted, of which directions alone show, and what hides a move.

Used elsewhere: hiding.EQUAL, hiding.free_draws, hiding.hidden.
"""
