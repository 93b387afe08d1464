"""Headers of the pages of Parquet files, which say how the values of each page are encoded.

Arrow reads pages, but does not tell what they are. The headers are Thrift structures in its compact protocol; see "Thrift
compact protocol encoding" in Thrift's documentation and `parquet.thrift` in that of Parquet.
"""

from __future__ import annotations

import os
from typing import Any

#: The most bytes of a header to read: longer ones hold long statistics.
_HEADER_BYTES = 1 << 10
#: The types of pages.
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
#: The encodings of pages whose values are numbers of entries of the dictionary.
_NUMBERS = (2, 8)
#: The fields of a page's header: its type, its bytes in the file, and a structure for each type.
_TYPE, _BYTES = 1, 3
_OF_TYPE = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}
#: The fields of those structures: the number of values, and how they are encoded.
_VALUES = 1
_ENCODING = {_DATA: 2, _DATA_V2: 4}
#: Types of Thrift's fields.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_INTEGERS = (4, 5, 6)


def dictionary_size(file: int, column: Any) -> int | None:
    """Return how many values the dictionary of a column chunk has, if all pages of the chunk refer to it; otherwise None.

    Args:
        file: the descriptor of the file.
        column: Arrow's metadata of the chunk.
    """
    if not column.has_dictionary_page or column.dictionary_page_offset is None:
        return None
    at = column.dictionary_page_offset
    end = at + column.total_compressed_size
    entries, left = None, column.num_values
    try:
        while left > 0 and at < end:
            header, length = _header(os.pread(file, _HEADER_BYTES, at))
            kind = header[_TYPE]
            at += length + header[_BYTES]
            if kind not in _OF_TYPE:
                continue
            facts = header[_OF_TYPE[kind]]
            if kind == _DICTIONARY:
                entries = facts[_VALUES]
            elif facts[_ENCODING[kind]] not in _NUMBERS:
                return None
            else:
                left -= facts[_VALUES]
    except (IndexError, KeyError, TypeError, ValueError):  # no headers: an encrypted file, or a damaged one
        return None
    return entries if left == 0 else None


def _header(data: bytes) -> tuple[dict[int, Any], int]:
    """Return the fields of a structure by number, and its length."""
    reader = _Reader(data)
    return reader.struct(), reader.at


class _Reader:
    """Reads Thrift structures from bytes. Raises IndexError at their end, and ValueError for types that no header has."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def struct(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while True:
            mark = self._byte()
            if not mark:
                return found
            number = number + (mark >> 4) if mark >> 4 else self._integer()
            found[number] = self._value(mark & 15)

    def _value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind == _STRUCT:
            return self.struct()
        if kind not in (_DOUBLE, _BINARY):
            raise ValueError(f"a field of type {kind}")
        length = 8 if kind == _DOUBLE else self._unsigned()
        self.at += length
        return None

    def _byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def _unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7

    def _integer(self) -> int:
        coded = self._unsigned()
        return (coded >> 1) ^ -(coded & 1)
