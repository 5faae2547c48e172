"""Published privacy claims that do not hold, each with an experiment that anyone can run again."""
