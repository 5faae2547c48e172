"""Published privacy claims that an experiment or an argument contradicts. Anyone can run the experiments again."""
