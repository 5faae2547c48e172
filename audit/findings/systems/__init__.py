"""The findings, by the system or the kind of system that they are about: claim, experiment and words."""
