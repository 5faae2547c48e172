"""Plans, games, audits and runs, and the command line."""
