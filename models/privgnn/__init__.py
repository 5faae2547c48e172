"""PrivGNN and PATE: teachers label public nodes, noise is added to their answers, and a student learns from these labels.

Used elsewhere: privgnn.PrivGnn, entry, pate.Pate, privgnn.Taught, public_part.Public, published, student.learn.
"""
