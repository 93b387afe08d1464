"""The level and format of Skate's own log lines."""

from __future__ import annotations

import logging
from typing import Any

#: The name of the handler that `init` adds.
HANDLER = "skate.init"


def configure(level: Any, format: str | None) -> None:
    """Set the level of the loggers "skate" and "ray", and with a format print their lines in it.

    Raises ValueError for an unknown level.
    """
    for name in ("skate", "ray"):
        logger = logging.getLogger(name)
        logger.setLevel(level.upper() if isinstance(level, str) else level)
        if format is None:
            continue
        handler = next((each for each in logger.handlers if each.name == HANDLER), None)
        if handler is None:
            handler = logging.StreamHandler()
            handler.name = HANDLER
            logger.addHandler(handler)
            logger.propagate = False
        handler.setFormatter(logging.Formatter(format))
