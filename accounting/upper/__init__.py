"""What a ledger costs at most: one epsilon by each accountant, trade-off curves, and the noise that meets a claim."""
