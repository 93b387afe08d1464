"""The warning for deprecated names."""

from __future__ import annotations

import warnings


class RayDeprecationWarning(DeprecationWarning):
    """Something that still works is going to be removed."""


def warn(what: str, instead: str) -> None:
    """Warn about a deprecated name, at the line of the program that uses it."""
    warnings.warn(
        f"{what} is deprecated and may be removed. Use {instead} instead", RayDeprecationWarning, stacklevel=3
    )
