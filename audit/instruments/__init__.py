"""Tools of several audits: record a training, repeat it without a unit, compute the smallest detectable violation."""
