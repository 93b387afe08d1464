"""Messages that are too large for one frame: they travel in parts, and are put together where they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgpack

#: A message of more bytes is split: a channel takes no larger value than 1 GiB, and what is lost with a connection is sent again.
PART_BYTES: Final = 16 << 20
PART: Final = -9  # True in the last one, bytes


def parts_of(packed: bytes) -> Iterator[tuple[int, bool, memoryview]]:
    """Yield the frames in which a packed message travels."""
    data = memoryview(packed)
    for at in range(0, len(data), PART_BYTES):
        yield PART, at + PART_BYTES >= len(data), data[at : at + PART_BYTES]


class Assembly:
    """The messages of all members that have arrived in part."""

    def __init__(self) -> None:
        self._parts: dict[int, list[bytes]] = {}

    def take(self, source: int, is_last: bool, data: bytes) -> tuple[Any, ...] | None:
        """Add a part of a member's message; return the message when it is complete and valid."""
        self._parts.setdefault(source, []).append(data)
        if not is_last:
            return None
        whole = b"".join(self._parts.pop(source))
        try:
            message = msgpack.unpackb(whole, use_list=False, strict_map_key=False, raw=False)
        except (ValueError, TypeError, msgpack.exceptions.UnpackException):
            return None
        is_valid = type(message) is tuple and message and type(message[0]) is int and message[0] >= 0
        return message if is_valid else None

    def left(self, source: int) -> None:
        """Forget what a member has not completed."""
        self._parts.pop(source, None)
