"""``skate version``: the installed versions, in one line for bug reports."""

from __future__ import annotations

import platform
from collections.abc import Sequence

from skate.version import RAY_VERSION, __version__

SUMMARY = "print the versions of Skate, of its API, and of Python"


def main(arguments: Sequence[str]) -> int:
    """Print one line and return 0; arguments are ignored."""
    print(f"skate {__version__} (API of Ray {RAY_VERSION}, Python {platform.python_version()})")
    return 0
