"""`expr.list` and `expr.arr`: lists and arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import columns, tensors
from skate.data.expressions.namespaces.base import Namespace

if TYPE_CHECKING:
    from skate.data.expressions.tree import Expr


class ListNamespace(Namespace):
    """Functions of lists."""

    _title = "list"

    def len(self) -> Expr:
        """Return the number of elements of each list."""
        return self._call("len", "list_value_length")

    def __getitem__(self, key: int | slice) -> Expr:
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        if not isinstance(key, int):
            raise TypeError(f"List indices must be integers or slices, not {type(key).__name__}: {key!r}")
        return self.get(key)

    def get(self, index: int) -> Expr:
        """Return the element at an index from 0. Raises ArrowInvalid when computed if a list is too short."""
        return self._call("get", "list_element", index)

    def slice(self, start: int | None = None, stop: int | None = None, step: int | None = None) -> Expr:
        """Slice each list; indices start at 0."""
        return self._call(
            "slice", "list_slice", start=start or 0, stop=stop, step=1 if step is None else step
        )

    def sort(self, order: str = "ascending", null_placement: str = "at_end") -> Expr:
        """Sort each list, "ascending" or "descending", with nulls "at_start" or "at_end"."""
        if order not in ("ascending", "descending"):
            raise ValueError(f"order must be either 'ascending' or 'descending', got {order!r}")
        if null_placement not in ("at_start", "at_end"):
            raise ValueError(f"null_placement must be 'at_start' or 'at_end', got {null_placement!r}")
        return self._call("sort", sorted_lists, order=order, null_placement=null_placement)

    def flatten(self) -> Expr:
        """Flatten lists of lists by one level."""
        return self._call("flatten", flattened)


class ArrayNamespace(Namespace):
    """Functions of arrays."""

    _title = "arr"

    def to_list(self) -> Expr:
        """Convert arrays to lists."""
        return self._call("to_list", as_lists)


def list_over(column: Any, element: Callable[[Any], Any]) -> Any:
    """Return lists of the same lengths as a column's, with other elements; nulls stay."""
    whole = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    made = []
    for chunk in whole.chunks:
        mask = chunk.is_null() if chunk.null_count else None
        make = pa.LargeListArray if pa.types.is_large_list(chunk.type) else pa.ListArray
        # `offsets` may belong to a slice; `values` is the whole array that they index.
        made.append(make.from_arrays(_offsets(chunk, mask), element(chunk)))
    if not made:
        empty = element(pa.array([], whole.type))
        return pa.chunked_array([], pa.list_(empty.type))
    return pa.chunked_array(made)


def _offsets(chunk: Any, mask: Any) -> Any:
    offsets = chunk.offsets
    if mask is None:
        return offsets
    # A null offset makes the row null.
    return pc.if_else(pa.concat_arrays([mask, pa.array([False])]), pa.scalar(None, offsets.type), offsets)


def _need_list(column: Any) -> Any:
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return column.cast(pa.list_(kind.value_type))
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise TypeError(f".list needs a column of lists, got {kind}")
    return column


def sorted_lists(column: Any, order: str, null_placement: str) -> Any:
    """Sort each list of a column."""
    column = _need_list(column)

    def in_order(chunk: Any) -> Any:
        flat = chunk.flatten()
        parent = pc.list_parent_indices(chunk)
        # Nulls get a key of their own, because the option for placing them differs between Arrow releases.
        keys = pa.table({"parent": parent, "missing": flat.is_null(), "element": flat})
        nulls = "ascending" if null_placement == "at_end" else "descending"
        rows = pc.sort_indices(
            keys, sort_keys=[("parent", "ascending"), ("missing", nulls), ("element", order)]
        )
        return pc.take(flat, rows)

    return list_over(_packed(column), in_order)


def flattened(column: Any) -> Any:
    """Remove one level of nesting from lists."""
    column = _need_list(column)
    inner = column.type.value_type
    if not (pa.types.is_list(inner) or pa.types.is_large_list(inner)):
        raise TypeError(f".list.flatten() needs a column of lists of lists, got {column.type}")
    rows = [
        None if row is None else [each for part in row for each in part or ()] for row in column.to_pylist()
    ]
    make = pa.large_list if pa.types.is_large_list(column.type) else pa.list_
    return pa.chunked_array([pa.array(rows, make(inner.value_type))])


def _packed(column: Any) -> Any:
    """Rebuild the lists without gaps: slices and null rows may hide elements."""
    whole = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    made = []
    for chunk in whole.chunks:
        lengths = pc.fill_null(pc.list_value_length(chunk), 0)
        ends = pc.cumulative_sum(lengths.cast(pa.int64()))
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
        if chunk.null_count:
            mask = pa.concat_arrays([chunk.is_null(), pa.array([False])])
            offsets = pc.if_else(mask, pa.scalar(None, pa.int64()), offsets)
        if not pa.types.is_large_list(chunk.type):
            made.append(pa.ListArray.from_arrays(offsets.cast(pa.int32()), chunk.flatten()))
        else:
            made.append(pa.LargeListArray.from_arrays(offsets, chunk.flatten()))
    return pa.chunked_array(made, whole.type) if made else whole


def as_lists(column: Any) -> Any:
    """Convert arrays, of one or of many shapes, to nested lists."""
    kind = column.type
    if not tensors.is_tensor(kind):
        if pa.types.is_fixed_size_list(kind):
            return column.cast(pa.list_(kind.value_type))
        return _need_list(column)
    rows = [None if row is None else row.tolist() for row in columns.to_values(_chunked(column))]
    shape = tensors.shape_of(kind)
    if shape is None:
        return pa.chunked_array([pa.array(rows)])
    nested = kind.value_type
    for _ in shape:
        nested = pa.list_(nested)
    return pa.chunked_array([pa.array(rows, nested)])


def _chunked(column: Any) -> Any:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
