"""VESPER: two parties train a model together. The party with the graph adds noise to the messages that depend on its edges.

Used elsewhere: vesper.Vesper, aggregators.Neighbours, aggregators.aggregate.
"""
