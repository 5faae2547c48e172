"""The conditions under which a lower bound holds, and the tests that check them.

Used elsewhere: conditions.Condition, conditions.proved, conditions.checked.
"""
