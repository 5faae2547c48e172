"""`python -m gnnaudit` is the command `audit`."""

from .audit.cli.main import main

if __name__ == "__main__":
    main()
