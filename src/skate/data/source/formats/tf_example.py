"""tf.train.Example as bytes, parsed and built by hand from the few Protocol Buffers fields that it uses.

An Example is a map from names to features; a feature is a list of bytes, of float32 or of int64. See
https://protobuf.dev/programming-guides/encoding and tensorflow/core/example/{example,feature}.proto for the
field numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Field numbers inside a Feature, by kind.
KINDS = {1: "bytes", 2: "float", 3: "int"}
_NUMBERS = {kind: number for number, kind in KINDS.items()}
Feature = tuple[str, list[Any]]


def parse(data: bytes) -> dict[str, Feature]:
    """Parse the features of an Example by name: a kind ("bytes", "float", "int", or "" for none) and the values.

    Raises ValueError for bytes that are not an Example.
    """
    found: dict[str, Feature] = {}
    for number, value in _fields(memoryview(data)):
        if number == 1 and isinstance(value, memoryview):  # Example.features
            for inner, entry in _fields(value):
                if inner == 1 and isinstance(entry, memoryview):  # Features.feature, a map's entry
                    name, feature = _entry(entry)
                    found[name] = feature
    return found


def _entry(data: memoryview) -> tuple[str, Feature]:
    name = ""
    feature: Feature = ("", [])
    for number, value in _fields(data):
        if not isinstance(value, memoryview):
            continue
        if number == 1:
            name = str(value, "utf-8")
        elif number == 2:
            feature = _feature(value)
    return name, feature


def _feature(data: memoryview) -> Feature:
    found: Feature = ("", [])
    for number, value in _fields(data):
        kind = KINDS.get(number)
        if kind is not None and isinstance(value, memoryview):
            found = (kind, _values(kind, value))
    return found


def _values(kind: str, data: memoryview) -> list[Any]:
    values: list[Any] = []
    for number, value in _fields(data):
        if number != 1:
            continue
        if kind == "bytes" and isinstance(value, memoryview):
            values.append(bytes(value))
        elif kind == "float":
            values += np.frombuffer(value, "<f4").tolist()  # packed, or a single 4-byte value
        elif isinstance(value, int):
            values.append(_signed(value))
        elif kind == "int":
            at = 0
            while at < len(value):
                one, at = _varint(value, at)
                values.append(_signed(one))
    return values


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message: their numbers, and an int or the bytes."""
    at = 0
    size = len(data)
    while at < size:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"not a tf.train.Example: field {number} has the wire type {wire}")
        if at + length > size:
            raise ValueError(
                f"not a tf.train.Example: field {number} has {length} bytes, but {size - at} are left"
            )
        yield number, data[at : at + length]
        at += length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("not a tf.train.Example: a number does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def build(features: Mapping[str, tuple[str, Sequence[Any]]]) -> bytes:
    """Return the bytes of an Example, from a kind and values for each name."""
    entries = b"".join(
        _tagged(1, _tagged(1, name.encode()) + _tagged(2, _feature_bytes(kind, values)))
        for name, (kind, values) in sorted(features.items())
    )
    return _tagged(1, entries)


def _feature_bytes(kind: str, values: Sequence[Any]) -> bytes:
    if not kind:
        return b""
    if kind == "bytes":
        inner = b"".join(_tagged(1, value) for value in values)
    elif kind == "float":
        inner = _tagged(1, struct.pack(f"<{len(values)}f", *values)) if len(values) else b""
    else:
        inner = (
            _tagged(1, b"".join(_as_varint(int(value) & (1 << 64) - 1) for value in values))
            if len(values)
            else b""
        )
    return _tagged(_NUMBERS[kind], inner)


def _tagged(number: int, data: bytes) -> bytes:
    return _as_varint(number << 3 | _BYTES) + _as_varint(len(data)) + data


def _as_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
