"""A user's own model: how a program, function or file becomes a model, and the checks that it keeps the contract."""
