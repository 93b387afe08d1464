"""Output levels of a search."""

from __future__ import annotations

import os
from enum import IntEnum
from typing import Any

from skate.tune.progress_reporter import in_notebook

IS_NOTEBOOK = in_notebook()


class AirVerbosity(IntEnum):
    """An output level: nothing, the table of trials, or also results."""

    SILENT = 0
    DEFAULT = 1
    VERBOSE = 2

    def __repr__(self) -> str:
        return str(self.value)


def get_air_verbosity(verbose: Any) -> AirVerbosity | None:
    """Return the level for a number or a `Verbosity`; None if RAY_AIR_NEW_OUTPUT is 0 in the environment."""
    if os.environ.get("RAY_AIR_NEW_OUTPUT", "1") == "0":
        return None
    return AirVerbosity(min(2, int(verbose)))


__all__ = ["IS_NOTEBOOK", "AirVerbosity", "get_air_verbosity"]
