"""What an adversary makes of a release."""
