"""Upper and lower bounds on epsilon. This package does not use graphs.

Used elsewhere: claim.Unit, claim.Claim, arguments.shown, gaussian.epsilon_of, claim.Relation, gaussian.mu_of_claim, gaussian,
arguments.check_type, closed_forms.channel_epsilon, arguments.is_whole, claim.check_claim, arguments.is_number.
"""
