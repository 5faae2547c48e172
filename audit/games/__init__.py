"""Which secrets are drawn, in which worlds: games of coins, planted canaries, and graphs made for an audit."""
