"""Published privacy claims that an experiment or an argument contradicts, and code that repeats the experiments."""
