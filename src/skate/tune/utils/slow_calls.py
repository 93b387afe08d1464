"""Blocks of code that take longer than they should."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warn_if_slow(
    name: str, threshold: float | None = None, message: str | None = None, disable: bool = False
) -> Iterator[None]:
    """Log a message if the block takes long.

    Args:
        name: the name of the block.
        threshold: the limit in seconds; 0.5 by default.
        message: the message, with {name} and {duration}.
        disable: True to log nothing.
    """
    limit = 0.5 if threshold is None else threshold
    began = time.monotonic()
    try:
        yield
    finally:
        took = time.monotonic() - began
        if took > limit and not disable:
            text = message or "{name} took {duration:.3f} s, which may slow the search down"
            logging.getLogger("skate.tune").warning(text.format(name=name, duration=took))
