"""From a name or a path to a checked graph: downloads, readers of file formats, generated graphs."""
