"""What all recorded runs of a user's model show together, and which audits apply to the model.

Used elsewhere: recorded_runs.Recorded, recorded_runs.recorded, gate.a_strangers.
"""
