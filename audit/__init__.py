"""Games, runs, and the command line."""
