"""Event files for TensorBoard: records of protocol buffers with checksums, written without a library.

tensorboardX and protobuf take 300 ms to import and a millisecond per result, but numbers and settings need
only six kinds of fields.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any

from skate.air.loggers.append_file import AppendFile
from skate.crc32c import framed

#: The largest single-precision number.
_LARGEST = 3.4028234663852886e38
_numbers = itertools.count()


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _part(number: int, contents: bytes) -> bytes:
    size = len(contents)
    if size < 0x80:
        return bytes((number << 3 | 2, size)) + contents
    return bytes((number << 3 | 2,)) + _varint(size) + contents


@functools.lru_cache(maxsize=4096)
def _tag(tag: str) -> bytes:
    """Return the encoded tag of a scalar; each result of a search has the same ones."""
    return _part(1, tag.encode())


def scalars(values: Mapping[str, float]) -> bytes:
    """Build a summary of scalars by their tags."""
    return b"".join(
        _part(1, _tag(tag) + b"\x15" + struct.pack("<f", _single(value))) for tag, value in values.items()
    )


def _single(value: float) -> float:
    return max(min(value, _LARGEST), -_LARGEST) if math.isfinite(value) else value


def settings(values: Mapping[str, Any], tags: Iterable[str]) -> list[bytes]:
    """Return the three summaries for TensorBoard's hyperparameter page.

    Args:
        values: the settings; None values are dropped, unsupported types become text.
        tags: the names of the metrics.
    """
    known = {name: _kind(value) for name, value in values.items() if value is not None}
    entries = b"".join(_part(1, _tag(name) + _part(2, encoded)) for name, (_, encoded) in known.items())
    return [
        _experiment(tuple((name, kind) for name, (kind, _) in known.items()), tuple(tags)),
        _of_plugin("_hparams_/session_start_info", _part(3, entries)),
        _END,
    ]


@functools.lru_cache(maxsize=64)
def _experiment(names: tuple[tuple[str, int], ...], tags: tuple[str, ...]) -> bytes:
    """Return the summary of the names and types of settings, and of the metrics, which trials of a search share."""
    infos = b"".join(_part(4, _tag(name) + b"\x20" + bytes((kind,))) for name, kind in names)
    metrics = b"".join(_part(5, _part(1, _part(2, tag.encode()))) for tag in tags)
    return _of_plugin("_hparams_/experiment", _part(2, infos + metrics))


def _kind(value: Any) -> tuple[int, bytes]:
    """Return TensorBoard's type of a setting, and its encoded value."""
    if isinstance(value, bool):
        return 2, b"\x20" + bytes((value,))
    if isinstance(value, int | float):
        return 3, b"\x11" + struct.pack("<d", value)
    return 1, _part(3, str(value).encode())


def _of_plugin(tag: str, contents: bytes) -> bytes:
    plugin = _part(1, b"hparams") + _part(2, contents)
    return _part(1, _part(1, tag.encode()) + _part(9, _part(1, plugin)))


_END = _of_plugin("_hparams_/session_end_info", _part(4, b"\x08\x01"))  # status: success


class EventFile:
    """An event file in a folder.

    Two files started in the same second by one process have different names.
    """

    def __init__(self, folder: str) -> None:
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._file = AppendFile(f"{folder}/{name}")
        version = b"\x09" + struct.pack("<d", time.time()) + _part(3, b"brain.Event:2")
        self._records = [framed(version)]

    def add(self, summary: bytes, step: int | None = None) -> None:
        """Write a summary: from `scalars`, from `settings`, or from a library."""
        at = b"\x09" + struct.pack("<d", time.time())
        place = b"" if step is None else b"\x10" + _varint(step)
        self._records.append(framed(at + place + _part(5, summary)))

    def flush(self) -> None:
        """Flush written records, so that readers see them."""
        if self._records:
            data = b"".join(self._records)
            self._records.clear()
            self._file.write(data)

    def close(self) -> None:
        """Write buffered records, and close the file."""
        try:
            self.flush()
        finally:
            self._file.close()
