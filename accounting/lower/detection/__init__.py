"""What a test detects: error rates of a threshold, families of ledgers, and the smallest violation that rounds show."""
