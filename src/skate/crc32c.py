"""CRC-32C (Castagnoli), and the framing of records with it in TFRecord files and event files.

A library computes the checksum if one is installed; otherwise tables do.
"""

from __future__ import annotations

import functools
import importlib
import struct
from collections.abc import Callable

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8


def masked(data: bytes) -> int:
    """Return the checksum of bytes, rotated and offset to protect data that itself contains checksums."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + _MASK_DELTA) & 0xFFFFFFFF


def framed(data: bytes) -> bytes:
    """Return a record in its form in a file: its length and its bytes, each with a checksum."""
    return b"".join((_header(len(data)), data, _checksum(data)))


@functools.lru_cache(maxsize=1024)
def _header(size: int) -> bytes:
    """Return the length of a record with its checksum; the records of a file have few different lengths."""
    length = struct.pack("<Q", size)
    return length + _checksum(length)


def _checksum(data: bytes) -> bytes:
    return struct.pack("<I", masked(data))


def _table() -> list[int]:
    made = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        made.append(value)
    return made


def _tables() -> list[list[int]]:
    """Return eight tables, to process eight bytes at a time ("slicing by 8")."""
    made = [_table()]
    for _ in range(7):
        last = made[-1]
        made.append([made[0][value & 0xFF] ^ value >> 8 for value in last])
    return made


_EIGHT = struct.Struct("<I4B")
_TABLES: list[list[int]] = []


def by_tables(data: bytes) -> int:
    """Compute the checksum in pure Python: about 10 MB/s."""
    if not _TABLES:
        _TABLES.extend(_tables())
    t0, t1, t2, t3, t4, t5, t6, t7 = _TABLES
    crc = 0xFFFFFFFF
    whole = len(data) & ~7
    for word, b4, b5, b6, b7 in _EIGHT.iter_unpack(memoryview(data)[:whole]):
        low = crc ^ word
        crc = (
            t7[low & 0xFF] ^ t6[low >> 8 & 0xFF] ^ t5[low >> 16 & 0xFF] ^ t4[low >> 24]
            ^ t3[b4] ^ t2[b5] ^ t1[b6] ^ t0[b7]
        )  # fmt: skip
    for byte in data[whole:]:
        crc = t0[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _fastest() -> Callable[[bytes], int]:
    for module, name in (("google_crc32c", "value"), ("crc32c", "crc32c")):
        try:
            found: Callable[[bytes], int] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        return found
    return by_tables


crc32c = _fastest()
