"""PrivGNN and PATE: teachers vote, a noisy count of votes labels public nodes, a student learns from the labels."""
