"""`python -m ember`."""

import sys

from ember.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
