"""PrivGNN and PATE: teachers label public nodes, noise is added to their answers, and a student learns from these labels."""
