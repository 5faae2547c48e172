"""Graphs, worlds, and the systems under audit.

Used elsewhere: base.Release, base.Model, errors.one_line, facts.Facts, capabilities.RunsElsewhere, capabilities.has,
facts.System, facts.factory, capabilities.BoundedDegree, capabilities.effort, errors.raised, systems.SYSTEMS.
"""
