"""The partition of a key: the same in every process, and for equal values of different types.

Whole columns are hashed at once. An int, a float and a decimal with the same value have the same hash, and so
do strings of any layout. Equal keys of two datasets therefore meet in the same partition even if their types
differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.exchange.keys import key_columns

_NULL = np.uint64(0x9E3779B97F4A7C15)
_NAN = np.uint64(0xD1B54A32D192ED03)
_ODD = np.uint64(0xFF51AFD7ED558CCD)
_STEP = np.uint64(0xC4CEB9FE1A85EC53)
_HALF, _SHIFT = np.uint64(32), np.uint64(29)
_BYTE = np.uint64(8)
_WORD_MAX = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Ticks in a microsecond, or microseconds in a tick, by unit of time.
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": -1_000}


def partition_of(table: pa.Table, keys: Sequence[str], partitions: int) -> np.ndarray:
    """Return the partition number of each row, in the smallest integer type that fits."""
    hashes = hash_rows(key_columns(table, keys))
    # The upper half of the hash times the number of partitions: no division, and negligible bias.
    places = ((hashes >> _HALF) * np.uint64(partitions)) >> _HALF
    small: np.ndarray = places.astype(place_type(partitions))
    return small


def place_type(partitions: int) -> type[np.unsignedinteger]:
    """Return the smallest integer type for this many partitions: small types are sorted in linear time."""
    return np.uint8 if partitions <= 1 << 8 else np.uint16 if partitions <= 1 << 16 else np.uint32


def hash_rows(columns: Sequence[pa.ChunkedArray]) -> np.ndarray:
    """Return a 64-bit hash of each row over some columns."""
    found: np.ndarray | None = None
    for column in columns:
        codes = _hash_column(column)
        found = codes if found is None else _mixed(found * _STEP ^ codes)
    assert found is not None
    return found


def _hash_column(column: pa.ChunkedArray) -> np.ndarray:
    chunks = [_hash_array(chunk) for chunk in column.chunks]
    if not chunks:
        return np.empty(0, np.uint64)
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)


def _hash_array(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), _NULL)
    if pa.types.is_dictionary(kind):
        codes = _hash_array(array.dictionary)
        places = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        hashes = codes[places] if len(codes) else np.full(len(array), _NULL)
    elif _is_text(kind):
        hashes = _hash_text(array)
    elif pa.types.is_struct(kind):
        hashes = hash_rows([pa.chunked_array([each]) for each in array.flatten()])
    else:
        hashes = _mixed(_numbers(array))
    if array.null_count:
        hashes = np.where(_valid(array), hashes, _NULL)
    return hashes


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or getattr(types, "is_string_view", bool)(kind)
        or getattr(types, "is_binary_view", bool)(kind)
    )


def _valid(array: pa.Array) -> np.ndarray:
    valid: np.ndarray = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _numbers(array: pa.Array) -> np.ndarray:
    """Convert values to 64-bit words, identical for equal values of different types."""
    kind = array.type
    if pa.types.is_decimal(kind):
        array = pc.cast(array, pa.float64(), safe=False)
    elif pa.types.is_temporal(kind):
        return _times(array)
    values = _plain(array)
    if values.dtype.kind != "f":
        wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False)
        integers: np.ndarray = wide.view(np.uint64)
        return integers
    values = values.astype(np.float64, copy=False)
    whole = np.floor(values) == values
    whole &= np.abs(values) < 2.0**63
    words = np.where(values != values, _NAN, values.view(np.uint64))
    rounded = np.where(whole, values, 0.0).astype(np.int64).view(np.uint64)
    return np.where(whole, rounded, words)


def _plain(array: pa.Array) -> np.ndarray:
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    values: np.ndarray = array.to_numpy(zero_copy_only=False)
    return values.astype(np.uint8) if values.dtype == bool else values


def _times(array: pa.Array) -> np.ndarray:
    """Convert times to microseconds; finer ones merely share a hash."""
    kind = array.type
    days = pa.types.is_date32(kind)
    unit = "ms" if pa.types.is_date64(kind) else getattr(kind, "unit", "us")
    small = days or pa.types.is_time32(kind)
    values = _plain(array.view(pa.int32() if small else pa.int64())).astype(np.int64)
    factor = 86_400_000_000 if days else _MICROSECONDS[unit]
    # Distant dates wrap around, which does no harm in a hash.
    scaled = values * np.int64(factor) if factor > 0 else values // np.int64(-factor)
    words: np.ndarray = scaled.view(np.uint64)
    return words


def _hash_text(array: pa.Array) -> np.ndarray:
    """Hash strings eight bytes at a time, all rows together; rows whose strings have ended drop out."""
    if not len(array):
        return np.empty(0, np.uint64)
    array = array.cast(pa.large_binary())
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    low, high = int(offsets[0]), int(offsets[-1])
    # Eight bytes more, so that the last word of the last string can be read whole.
    data = np.zeros(high - low + 8, np.uint8)
    if high > low:
        data[:-8] = np.frombuffer(array.buffers()[2], np.uint8)[low:high]
    words = np.lib.stride_tricks.as_strided(data[:8].view("<u8"), (high - low + 1,), (1,))
    starts = offsets[:-1] - low
    lengths = offsets[1:] - offsets[:-1]
    hashes = lengths.astype(np.uint64) * _ODD
    rows: np.ndarray | None = None  # all of them, while there is no row that has ended
    at = 0
    while True:
        left = lengths - at if rows is None else lengths[rows] - at
        going = left > 0
        if not going.all():
            rows = np.flatnonzero(going) if rows is None else rows[going]
            left = left[going]
        if not len(left):
            return _mixed(hashes)
        word = words[(starts if rows is None else starts[rows]) + at]
        short = left < 8
        if short.any():
            unused = (_BYTE - np.minimum(left, 8).astype(np.uint64)) * _BYTE
            word &= _WORD_MAX >> unused
        before = hashes if rows is None else hashes[rows]
        made = _mixed(before * _STEP ^ word)
        if rows is None:
            hashes = made
        else:
            hashes[rows] = made
        at += 8


def _mixed(words: np.ndarray) -> np.ndarray:
    """Mix words so that every output bit depends on every input bit."""
    mixed = words ^ (words >> _HALF)
    mixed *= _ODD
    mixed ^= mixed >> _SHIFT
    mixed *= _STEP
    mixed ^= mixed >> _HALF
    found: np.ndarray = mixed
    return found
