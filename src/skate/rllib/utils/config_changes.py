"""Changes of a configuration that is in use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def thawed(config: Any) -> Iterator[Any]:
    """Let a frozen configuration be changed inside of the block.

    Args:
        config: The configuration; one that was never frozen stays so.
    """
    frozen = getattr(config, "_is_frozen", False)
    if frozen:
        config._is_frozen = False
    try:
        yield config
    finally:
        if frozen:
            config.freeze()
