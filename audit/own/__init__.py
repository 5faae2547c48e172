"""Users' own models: a program, function or file as a model, and the checks of the model contract."""
