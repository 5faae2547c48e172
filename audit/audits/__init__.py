"""The audits: each turns what a model releases into lower bounds on epsilon, or says why it cannot."""
