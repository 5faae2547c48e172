"""The commands of `audit`, one file each; a command reads its options, calls the library and prints."""
