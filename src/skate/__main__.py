"""``python -m skate``: the command line, without its console script."""

from __future__ import annotations

import sys

from skate.command import main

if __name__ == "__main__":
    sys.exit(main())
