"""TFRecord files of tf.train.Example, without TensorFlow.

A record is its length (8 bytes), a checksum of the length, the data, and a checksum of the data; see
tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from skate.crc32c import framed, masked
from skate.data.block import rows_of
from skate.data.source.files.sink import BlockBasedFileDatasink
from skate.data.source.files.source import FileBasedDatasource
from skate.data.source.formats import tf_example

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_RECORDS_AT_ONCE = 4096
_CHECKED_MAX = 1 << 16
#: Types of features in a tensorflow-metadata schema, by number.
_SCHEMA_KINDS = {1: "bytes", 2: "int", 3: "float"}
_TYPES = {"bytes": pa.binary(), "float": pa.float32(), "int": pa.int64()}


class TFRecordDatasource(FileBasedDatasource):
    """Reads the features of each record as columns."""

    _INFLATION = 1.2

    def __init__(self, paths: Any, *, tf_schema: Any = None, **files: Any) -> None:
        self._kinds = None if tf_schema is None else kinds_of(tf_schema)
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "TFRecord"

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        waiting: list[dict[str, tf_example.Feature]] = []
        for number, data in enumerate(records(f, path)):
            try:
                waiting.append(tf_example.parse(data))
            except ValueError as error:
                raise ValueError(f"{path}, record {number}: {error}") from None
            if len(waiting) >= _RECORDS_AT_ONCE:
                yield self._table(waiting)
                waiting = []
        if waiting:
            yield self._table(waiting)

    def _table(self, examples: list[dict[str, tf_example.Feature]]) -> pa.Table:
        names = dict.fromkeys(name for example in examples for name in example)
        return pa.table({name: self._column(name, [each.get(name) for each in examples]) for name in names})

    def _column(self, name: str, features: list[tf_example.Feature | None]) -> pa.Array:
        declared = (self._kinds or {}).get(name)
        kinds = {feature[0] for feature in features if feature is not None and feature[0]}
        if len(kinds) > 1:
            raise ValueError(f"feature {name!r} has values of several kinds: {', '.join(sorted(kinds))}")
        kind = kinds.pop() if kinds else declared[0] if declared else None
        if declared is not None and kind != declared[0]:
            raise ValueError(f"feature {name!r} has {kind} values, but tf_schema declares {declared[0]}")
        if kind is None:
            return pa.nulls(len(features))
        lists = [None if feature is None or not feature[0] else feature[1] for feature in features]
        single = all(values is None or len(values) == 1 for values in lists)
        if declared is not None:
            single = not declared[1]
        if single:
            return pa.array([values[0] if values else None for values in lists], _TYPES[kind])
        return pa.array(lists, pa.list_(_TYPES[kind]))


def kinds_of(tf_schema: Any) -> dict[str, tuple[str, bool]]:
    """Return the kind of each feature in a tensorflow-metadata schema, and True if it is a list."""
    found = {}
    for feature in tf_schema.feature:
        dims = getattr(getattr(feature, "shape", None), "dim", ())
        most = getattr(getattr(feature, "value_count", None), "max", 0)
        found[feature.name] = (_SCHEMA_KINDS[int(feature.type)], bool(len(dims)) or most != 1)
    return found


def records(f: Any, path: str) -> Iterator[bytes]:
    """Yield the data of each record. Raises ValueError for a truncated file and for wrong checksums."""
    number = 0
    while header := f.read(_HEADER.size):
        if len(header) < _HEADER.size:
            raise ValueError(
                f"{path} is cut off in record {number}: {len(header)} bytes of the record's length"
            )
        length, check = _HEADER.unpack(header)
        if masked(header[:8]) != check:
            raise ValueError(
                f"{path} is not a TFRecord file, or is damaged: the length of record {number} has a wrong "
                "checksum"
            )
        data = f.read(length)
        footer = f.read(_FOOTER.size)
        if len(data) < length or len(footer) < _FOOTER.size:
            raise ValueError(f"{path} is cut off in record {number}: {len(data)} of {length} bytes")
        # Without a library the checksum dominates the time, so large records are not checked.
        if length <= _CHECKED_MAX and masked(data) != _FOOTER.unpack(footer)[0]:
            raise ValueError(f"{path} is damaged: record {number} has a wrong checksum")
        yield data
        number += 1


class TFRecordDatasink(BlockBasedFileDatasink):
    """Writes rows as tf.train.Example records."""

    def __init__(self, path: str, *, tf_schema: Any = None, **files: Any) -> None:
        self._kinds = None if tf_schema is None else kinds_of(tf_schema)
        super().__init__(path, file_format="tfrecords", **files)

    def get_name(self) -> str:
        return "TFRecord"

    def write_tables(self, tables: Iterable[pa.Table], file: Any) -> None:
        for table in tables:
            declared = self._kinds or {}
            kinds = {}
            for field in table.schema:
                kinds[field.name] = (
                    declared[field.name][0] if field.name in declared else kind_of(field.name, field.type)
                )
            for row in rows_of(table):
                features = {
                    name: ("" if value is None else kinds[name], values_of(value, kinds[name]))
                    for name, value in row.items()
                }
                file.write(framed(tf_example.build(features)))


def kind_of(name: str, kind: pa.DataType) -> str:
    """Return which of the three kinds of features a column's values are. Raises ValueError for others."""
    inner = getattr(kind, "value_type", kind) if not pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(inner) or pa.types.is_boolean(inner):
        return "int"
    if pa.types.is_floating(inner):
        return "float"
    if (
        pa.types.is_string(inner)
        or pa.types.is_large_string(inner)
        or pa.types.is_binary(inner)
        or pa.types.is_large_binary(inner)
    ):
        return "bytes"
    if pa.types.is_null(inner):
        return ""
    raise ValueError(
        f"column {name!r} is {kind}, but tf.train.Example supports only bytes, text, numbers, and lists of one of them"
    )


def values_of(value: Any, kind: str) -> list[Any]:
    """Convert a row's value to the values of a feature."""
    if value is None:
        return []
    if isinstance(value, np.ndarray):
        value = value.reshape(-1).tolist()
    values = value if isinstance(value, list) else [value]
    if kind == "bytes":
        return [
            each.encode() if isinstance(each, str) else bytes(each) for each in values if each is not None
        ]
    return [each for each in values if each is not None]
