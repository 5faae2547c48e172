"""Plans a run: its options, its cases (calibrated models with claims), the epsilons of the cases, and its folder.

Used elsewhere: plan.Plan, plan.read, ledgers.uppers.
"""
