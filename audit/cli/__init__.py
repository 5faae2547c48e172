"""The commands of `audit`. A command reads its options, calls the library and prints the result."""
