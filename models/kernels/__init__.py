"""Loops over plain arrays that Numba compiles for the machine's processor.

Used elsewhere: ahead.compile_ahead, arithmetic.adam, decoders, list_gradients, mlp, net, sage_head, teachers.
"""
