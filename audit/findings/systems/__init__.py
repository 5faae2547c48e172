"""The findings, grouped by the system or the kind of system that they are about: claims, experiments and texts."""
