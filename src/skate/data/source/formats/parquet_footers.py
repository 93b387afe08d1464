"""Metadata in the footers of Parquet files: rows, row groups with their bytes in memory, columns."""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from skate.data.block.table import common_type
from skate.data.source.files import streams
from skate.data.source.files.filesystems import is_local
from skate.data.source.files.source import named

_THREADS = 16
#: The footers of up to this many local files are read sooner than threads start.
_AT_HAND = 16
#: The bytes in memory per value of a physical type; for other types, the size of the column chunk plus offsets.
_WIDTHS = {"BOOLEAN": 0.125, "INT32": 4.0, "INT64": 8.0, "INT96": 8.0, "FLOAT": 4.0, "DOUBLE": 8.0}
_OFFSET = 4
#: The digits of any decimal of Arrow.
_EXACT = decimal.Context(prec=76)


class RowGroup(NamedTuple):
    """The rows of a row group, and the approximate bytes of each column in memory, by top-level name."""

    rows: int
    columns: dict[str, int]

    def bytes_of(self, columns: Sequence[str] | None) -> int:
        """Return the bytes in memory of some columns, or of all."""
        if columns is None:
            return sum(self.columns.values())
        return sum(self.columns.get(name, 0) for name in columns)


@dataclass(frozen=True)
class Footer:
    """The footer of one file.

    Attributes:
        largest: the largest absolute values of columns of decimals, in units of their last digit, by name; without the
            columns whose statistics are missing.
    """

    rows: int
    groups: tuple[RowGroup, ...]
    schema: pa.Schema
    largest: Mapping[str, int]

    def bytes_of(self, columns: Sequence[str] | None) -> int:
        """Return the bytes in memory of some columns of the file, or of all."""
        return sum(group.bytes_of(columns) for group in self.groups)


def footer_of(metadata: Any) -> Footer:
    """Build a footer from Arrow's metadata."""
    groups = []
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        sizes: dict[str, int] = {}
        for number in range(group.num_columns):
            column = group.column(number)
            name = column.path_in_schema.split(".", 1)[0]
            width = _WIDTHS.get(column.physical_type)
            if width is None:
                size = (
                    max(column.total_uncompressed_size, 12 * column.num_values) + _OFFSET * column.num_values
                )
            else:
                size = int(width * column.num_values)
            sizes[name] = sizes.get(name, 0) + size
        groups.append(RowGroup(group.num_rows, sizes))
    schema = metadata.schema.to_arrow_schema()
    return Footer(metadata.num_rows, tuple(groups), schema, _largest_decimals(metadata, schema))


def _largest_decimals(metadata: Any, schema: pa.Schema) -> dict[str, int]:
    """Return the largest absolute values of columns of decimals, by the statistics of their row groups."""
    scales = {field.name: field.type.scale for field in schema if pa.types.is_decimal(field.type)}
    largest = dict.fromkeys(scales, 0)
    if not scales:
        return largest
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    for at in range(metadata.num_columns):
        name = metadata.schema.column(at).path
        for group in groups:
            if name not in largest:
                break
            found = _largest_in(group.column(at), scales[name])
            if found is None:
                del largest[name]
            else:
                largest[name] = max(largest[name], found)
    return largest


def _largest_in(column: Any, scale: int) -> int | None:
    """Return the largest absolute value of a chunk of decimals, in units of the last digit, or None if it is not known."""
    statistics = column.statistics
    if statistics is None:
        return None
    if not statistics.has_min_max:
        return 0 if statistics.has_null_count and statistics.null_count == column.num_values else None
    if column.physical_type in ("INT32", "INT64"):
        ends = [statistics.min_raw, statistics.max_raw]
    else:
        ends = [int(each.scaleb(scale, _EXACT)) for each in (statistics.min, statistics.max)]
    return int(max(map(abs, ends)))


def read_footers(
    paths: Sequence[str], filesystem: pafs.FileSystem, retried: Sequence[str]
) -> dict[str, Footer]:
    """Read the footers of files, several at a time. Errors name the file."""

    def one(path: str) -> Footer:
        try:
            return footer_of(streams.retried(lambda: pq.read_metadata(path, filesystem=filesystem), retried))
        except Exception as error:  # any error of Arrow or a filesystem: the file's name is added
            better = named(error, path)
            if better is error:
                raise
            raise better from None

    if len(paths) < 3 or (len(paths) <= _AT_HAND and is_local(filesystem)):
        return {path: one(path) for path in paths}
    with ThreadPoolExecutor(min(_THREADS, len(paths))) as pool:
        return dict(zip(paths, pool.map(one, paths), strict=True))


def one_schema(schemas: dict[str, pa.Schema]) -> pa.Schema:
    """Return one schema for files; types that differ are widened.

    Raises ValueError naming the column and two files if their types are incompatible.
    """
    (first, schema), *others = schemas.items()
    for path, other in others:
        if not other.equals(schema):
            schema = merged(schema, other, first, path)
    return schema.remove_metadata()


def merged(schema: pa.Schema, other: pa.Schema, first: str, path: str) -> pa.Schema:
    """Return a schema with the columns of both."""
    fields = {field.name: field for field in schema}
    for field in other:
        known = fields.get(field.name)
        if known is None:
            fields[field.name] = field
        elif not known.type.equals(field.type):
            try:
                fields[field.name] = pa.field(field.name, common_type(field.name, [known.type, field.type]))
            except ValueError:
                raise ValueError(
                    f"column {field.name!r} is {field.type} in {path} and {known.type} in {first}, which are "
                    "incompatible; read the files separately and cast it in one of them"
                ) from None
    return pa.schema(list(fields.values()))
