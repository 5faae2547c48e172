"""Games: random membership bits and the worlds they define, planted canaries, and graphs crafted for an audit."""
