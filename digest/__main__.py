"""`python -m digest`: the same as the `digest` command."""

import sys

from digest.cli import main

if __name__ == "__main__":
    sys.exit(main())
