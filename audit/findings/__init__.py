"""Published claims that do not hold, each with its experiment and its certificate."""
