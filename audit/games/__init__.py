"""Games with random membership bits and the worlds that they define, planted canaries, and graphs crafted for an audit.

Used elsewhere: game.Game, edge_catalogue.catalogue, game.Seen.
"""
