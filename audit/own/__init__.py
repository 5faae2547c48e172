"""Users' own models: turns a program, a function or a file into a model, and checks the model contract."""
