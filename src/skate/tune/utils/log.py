"""The output level of reporters in this process."""

from __future__ import annotations

import sys
from enum import Enum


class Verbosity(Enum):
    """Output levels, from least to most."""

    V0_MINIMAL = 0
    V1_EXPERIMENT = 1
    V2_TRIAL_NORM = 2
    V3_TRIAL_DETAILS = 3

    def __int__(self) -> int:
        return self.value


verbosity: Verbosity = Verbosity.V3_TRIAL_DETAILS


def set_verbosity(level: int | Verbosity) -> None:
    """Set the level.

    Raises:
        ValueError: there is no such level.
    """
    global verbosity
    verbosity = Verbosity(level) if isinstance(level, int) else level


def has_verbosity(level: int | Verbosity) -> bool:
    """Return True if messages of a level are printed."""
    return int(verbosity) >= int(level)


def disable_ipython() -> None:
    """Make this process behave as if it ran outside of a notebook."""
    shell = sys.modules.get("IPython.core.interactiveshell")
    if shell is not None:
        shell.InteractiveShell.clear_instance()
