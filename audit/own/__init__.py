"""Users' own models: turns a program, a function or a file into a model, and checks the model contract.

Used elsewhere: model_file.is_built_in, contained.contained, model_file.own_models.
"""
