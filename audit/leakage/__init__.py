"""What membership attacks learn from a model, and how accurate the model is."""
