"""Follows drawn numbers through scaling, joining and lists to the operation that adds them to data.

Used elsewhere: noise.followed, origin.Origin, single.is_single.
"""
