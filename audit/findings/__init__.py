"""Published privacy claims that an experiment or an argument contradicts, and code that repeats the experiments.

Used elsewhere: certificate.Certificate, certificate.confirmed, exact_epsilons, finding.with_experiments, certificate.Figure,
certificate.bars, certificate.computed.
"""
