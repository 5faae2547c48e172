"""What a test detects: error rates of a threshold, families of ledgers, and the smallest violation that rounds show.

Used elsewhere: error_rates.Rule, error_rates.epsilon_of_rates, error_rates.rate_at_most.
"""
