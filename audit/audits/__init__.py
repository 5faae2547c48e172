"""The audits. Each turns the releases of a model into lower bounds on epsilon, or states why it cannot."""
