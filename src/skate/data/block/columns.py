"""One column from Python values or from an array, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import objects, tensors

#: Arrow reads these types of single values by itself, so that a column of them needs no look at each value.
_PLAIN = frozenset({int, float, str, bool, bytes, type(None)})


def from_values(values: Sequence[Any]) -> pa.Array:
    """A column from one Python value a row: an Arrow type if there is one, arrays as tensors, anything else pickled."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN and any(_is_array(kind) for kind in kinds):
        return _from_arrays(values)
    try:
        return pa.array(values)
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
        pa.ArrowNotImplementedError,
        OverflowError,
        ValueError,
        TypeError,
    ):
        return _from_mixed(values, kinds)


def _from_mixed(values: Sequence[Any], kinds: set[type]) -> pa.Array:
    numbers = {int, float, bool, type(None)}
    if kinds <= numbers and float in kinds:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    if any(isinstance(value, np.generic) for value in values):
        return from_values(plain)
    return objects.from_objects(values)


def _is_array(kind: type) -> bool:
    return (
        issubclass(kind, np.ndarray)
        or kind.__module__.split(".", 1)[0] in ("torch", "jaxlib")
        and hasattr(kind, "__array__")
    )


def _from_arrays(values: Sequence[Any]) -> pa.Array:
    arrays = [None if value is None else np.asarray(value) for value in values]
    if all(each is None or each.ndim == 0 for each in arrays):
        return from_values([None if each is None else each.item() for each in arrays])
    try:
        return tensors.from_arrays(arrays)
    except TypeError:
        lists = [None if each is None else each.tolist() for each in arrays]
        try:
            return pa.array(lists)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return objects.from_objects(values)


def from_array(values: np.ndarray) -> pa.Array:
    """A column from an array whose first dimension counts rows."""
    if values.ndim > 1:
        try:
            return tensors.from_ndarray(values)
        except TypeError:
            return from_values(list(values))
    if values.dtype == object:
        return from_values(values.tolist() if not _holds_arrays(values) else list(values))
    if values.dtype.kind in "UT":
        return pa.array(values.tolist(), pa.string())
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return from_values(values.tolist())


def _holds_arrays(values: np.ndarray) -> bool:
    return any(isinstance(value, np.ndarray) for value in values)


def to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    """A column as an array; without a copy, and then read-only, where that can be."""
    kind = column.type
    if tensors.is_tensor(kind):
        return tensors.to_ndarray(column)
    if objects.is_object(kind):
        return _object_array(objects.to_objects(column))
    if pa.types.is_nested(kind) and not pa.types.is_struct(kind) and not pa.types.is_map(kind):
        return _from_lists(column)
    if column.num_chunks == 1:
        chunk = column.chunk(0)
        dense = not chunk.null_count and pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
        made: np.ndarray = chunk.to_numpy(zero_copy_only=dense and not pa.types.is_temporal(kind))
        return made
    whole: np.ndarray = column.to_numpy()
    return whole


def _from_lists(column: pa.ChunkedArray) -> np.ndarray:
    """Lists of one length become one array, as arrays of one shape do; others one array a row."""
    rows = [None if value is None else np.asarray(value) for value in column.to_pylist()]
    shapes = {None if row is None else row.shape for row in rows}
    if (
        len(shapes) == 1
        and None not in shapes
        and all(row.dtype != object for row in rows if row is not None)
    ):
        return np.stack(rows)  # type: ignore[arg-type]
    return _object_array(rows)


def _object_array(values: list[Any]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        out[at] = value
    return out


def to_values(column: pa.ChunkedArray) -> list[Any]:
    """One Python value a row; arrays where the column is one of arrays."""
    kind = column.type
    if tensors.is_tensor(kind):
        return tensors.to_arrays(column)
    if objects.is_object(kind):
        return objects.to_objects(column)
    values: list[Any] = column.to_pylist()
    return values
