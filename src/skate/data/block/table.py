"""Blocks from rows and batches, rows and batches from blocks, blocks end to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns, objects, tensors
from skate.data.block.foreign_tensors import without_foreign

#: A batch in user code: dict of arrays, pandas DataFrame or pyarrow Table.
Batch = Any
FORMATS = ("default", "numpy", "pandas", "pyarrow", None)
#: A slice that keeps more than this many times its own bytes alive is worth a copy.
_SLACK = 1.25
#: More chunks than this are merged if they have fewer rows each than this.
_CHUNKS, _CHUNK_ROWS = 8, 4096


def from_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Build a block from rows; a key that a row lacks is null there."""
    if not rows:
        return pa.table({})
    names: dict[str, None] = dict.fromkeys(rows[0])
    if any(row.keys() != rows[0].keys() for row in rows):
        for row in rows:
            names.update(dict.fromkeys(row))
        made = {name: columns.from_values([row.get(name) for row in rows]) for name in names}
    else:
        made = {name: columns.from_values([row[name] for row in rows]) for name in names}
    return _table(made, len(rows))


def _table(made: dict[str, Any], rows: int) -> pa.Table:
    if not made and rows:  # rows without columns: Arrow counts rows by columns, so keep a hidden one
        raise ValueError("rows without any column cannot be kept; return at least one column")
    for name in made:
        if not isinstance(name, str):
            raise ValueError(f"column names must be strings, got {name!r} ({type(name).__name__})")
    return pa.table(made)


def from_batch(batch: Batch) -> pa.Table:
    """Build a block from a user's batch. Raises ValueError for other types and for columns of unequal lengths."""
    if isinstance(batch, pa.RecordBatch):
        batch = pa.Table.from_batches([batch])
    if isinstance(batch, pa.Table):
        return without_foreign(batch)
    if isinstance(batch, Mapping):
        return from_columns(batch)
    if hasattr(batch, "iloc") and hasattr(batch, "columns"):
        return from_pandas(batch)
    raise ValueError(
        f"a value of type {type(batch)}. This isn't allowed: a batch is a dict of column name to array, a pandas DataFrame or a "
        f"pyarrow Table, not {type(batch).__name__}: {batch!r:.200}; wrap the values in a dict, as {{'data': values}}"
    )


def from_columns(batch: Mapping[str, Any]) -> pa.Table:
    """Build a block from columns: arrays, lists, Arrow arrays, tensors."""
    lengths: dict[str, int] = {}
    made: dict[str, Any] = {}
    for name, values in batch.items():
        if isinstance(values, (pa.Array, pa.ChunkedArray)):
            made[name] = values
        elif isinstance(values, np.ndarray) and values.ndim:
            made[name] = columns.from_array(values)
        elif isinstance(values, (list, tuple)):
            made[name] = columns.from_values(values)
        elif hasattr(values, "iloc"):
            made[name] = columns.from_series(values)
        elif hasattr(values, "__array__") and np.ndim(values):
            made[name] = columns.from_array(columns.as_ndarray(values))
        else:
            raise ValueError(
                f"column {name!r} of a batch is a {type(values).__name__}, {values!r:.80}; a column "
                "must be an array or a list with one entry per row"
            )
        lengths[name] = len(made[name])
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"the columns of a batch have unequal lengths: {lengths}; return the same number of values for each column"
        )
    return _table(made, 0)


def from_pandas(frame: Any) -> pa.Table:
    """Build a block from a DataFrame, without its index. Columns of arrays become tensors; values without an
    Arrow type are pickled."""
    return _frames().from_frame(frame)


def _frames() -> Any:
    # pandas takes 300 ms to load, so only code that uses frames should pay for it
    from skate.data.block import frames

    return frames


def to_batch(table: pa.Table, batch_format: str | None, for_function: bool = False) -> Batch:
    """Convert a block to a batch; "default" and "numpy" give a dict of arrays, None the block itself.

    `for_function` is True for the argument of a user's function, which may set columns of a DataFrame to arrays.
    """
    if batch_format in ("default", "numpy"):
        return {name: columns.to_numpy(table.column(at)) for at, name in enumerate(table.column_names)}
    if batch_format == "pandas":
        return to_pandas(table, for_function)
    if batch_format in ("pyarrow", None):
        return table
    raise ValueError(f"The given batch format {batch_format} isn't allowed (must be one of {list(FORMATS)})")


def to_pandas(table: pa.Table, for_function: bool = False) -> Any:
    """A block as a DataFrame; see `skate.data.block.frames`."""
    frames = _frames()
    frame = frames.to_frame(table)
    return frames.BatchFrame(frame) if for_function else frame


def rows_of(table: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a block as dicts."""
    names = table.column_names
    if not names:
        return iter(())
    values = [columns.to_values(table.column(at)) for at in range(len(names))]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def size_of(table: pa.Table) -> int:
    """The size of a block's values in bytes."""
    size: int = table.nbytes
    return size


def compact(table: pa.Table) -> pa.Table:
    """Return the same rows, copied if they are a small part of the buffers they keep alive, and merged if they are
    in many chunks.

    Chunks are counted one by one: two slices of one buffer count it twice.
    """
    if any(
        column.num_chunks > _CHUNKS and len(column) < _CHUNK_ROWS * column.num_chunks
        for column in table.columns
    ):
        return table.combine_chunks()
    kept = sum(chunk.get_total_buffer_size() for column in table.columns for chunk in column.chunks)
    if kept <= _SLACK * table.nbytes + 4096:
        return table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def concat(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate blocks. A column that a block lacks is null there; types that differ are widened.

    Raises ValueError naming the column if its types in two blocks are incompatible.
    """
    given = list(tables)
    parts = [table for table in given if table.num_rows]
    if not parts:
        return given[0] if given else pa.table({})
    if len(parts) == 1:
        return parts[0]
    first = parts[0].schema
    if all(part.schema.equals(first) for part in parts):
        return pa.concat_tables(parts)
    return _concat_unlike(parts)


def _concat_unlike(parts: list[pa.Table]) -> pa.Table:
    names: dict[str, None] = {}
    for part in parts:
        names.update(dict.fromkeys(part.column_names))
    made: dict[str, pa.ChunkedArray] = {}
    for name in names:
        kinds: list[pa.DataType] = []
        for part in parts:
            if name in part.column_names and part.schema.field(name).type not in kinds:
                kinds.append(part.schema.field(name).type)
        kind = common_type(name, kinds)
        try:
            chunks = _chunks(parts, name, kind)
        except pa.ArrowInvalid:  # numbers that would need a wider type than there is
            kind = objects.PythonObjectType()
            chunks = _chunks(parts, name, kind)
        made[name] = pa.chunked_array(chunks, kind)
    return pa.table(made)


def _chunks(parts: list[pa.Table], name: str, kind: pa.DataType) -> list[pa.Array]:
    chunks: list[pa.Array] = []
    for part in parts:
        if name in part.column_names:
            chunks += _as_type(part.column(name), kind)
        else:
            chunks.append(_nulls(part.num_rows, kind))
    return chunks


class UnlikeTypes(ValueError):
    """A column has incompatible types in different blocks."""

    def __init__(self, column: str, kinds: list[pa.DataType]) -> None:
        super().__init__(column, kinds)
        self.column = column
        self.kinds = kinds

    def __str__(self) -> str:
        kinds = ", ".join(map(str, self.kinds))
        return f"column {self.column!r} has incompatible types: {kinds}; cast it in one of the blocks"


def common_type(name: str, kinds: list[pa.DataType]) -> pa.DataType:
    """Return one type for a column that has several in different blocks."""
    known = [kind for kind in kinds if not pa.types.is_null(kind)] or kinds
    if len(known) == 1:
        return known[0]
    if any(objects.is_object(kind) for kind in known):
        return objects.PythonObjectType()
    if all(tensors.is_tensor(kind) for kind in known):
        first = known[0].value_type
        if all(kind.value_type.equals(first) for kind in known):
            return tensors.RaggedTensorType(first)
        numbers = [kind.value_type.to_pandas_dtype() for kind in known]
        return tensors.RaggedTensorType(pa.from_numpy_dtype(np.result_type(*numbers)))
    try:
        merged = pa.unify_schemas([pa.schema([(name, kind)]) for kind in known], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise UnlikeTypes(name, known) from error
    return merged.field(0).type


def unified(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the columns of all schemas with their common types, or the first schema if a column has incompatible ones."""
    if all(schema.equals(schemas[0]) for schema in schemas):
        return schemas[0]
    kinds: dict[str, list[pa.DataType]] = {}
    for field in (field for schema in schemas for field in schema):
        found = kinds.setdefault(field.name, [])
        if field.type not in found:
            found.append(field.type)
    try:
        return pa.schema([(name, common_type(name, given)) for name, given in kinds.items()])
    except UnlikeTypes:
        return schemas[0]


def _as_type(column: pa.ChunkedArray, kind: pa.DataType) -> list[pa.Array]:
    if column.type.equals(kind):
        chunks: list[pa.Array] = column.chunks
        return chunks
    if isinstance(kind, tensors.RaggedTensorType):
        if pa.types.is_null(column.type):
            return [_nulls(len(column), kind)]
        arrays = tensors.to_arrays(column)
        if not column.type.value_type.equals(kind.value_type):
            wanted = kind.value_type.to_pandas_dtype()
            arrays = [None if each is None else each.astype(wanted) for each in arrays]
        return [tensors.ragged(arrays, kind.value_type)]
    if objects.is_object(kind):
        return [objects.from_objects(columns.to_values(column))]
    if pa.types.is_null(column.type):
        return [_nulls(len(column), kind)]
    cast: list[pa.Array] = column.cast(kind).chunks
    return cast


def _nulls(rows: int, kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.nulls(rows, kind.storage_type))
    return pa.nulls(rows, kind)
