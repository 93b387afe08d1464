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
    """Say so, in the log, if what stands in the block takes long.

    Args:
        name: what it is.
        threshold: how many seconds are long; 0.5 by default.
        message: what to say, with {name} and {duration}.
        disable: whether to say nothing.
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
