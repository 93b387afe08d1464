"""One column from Python values or from an array, and back."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import objects, tensors

#: Arrow converts these Python types correctly, so a column of them need not be checked value by value.
_PLAIN = frozenset({int, float, str, bool, bytes, type(None)})
_NUMBERS = frozenset({int, float, bool, type(None)})
#: Text with fewer bytes than this gets 32-bit offsets.
_NARROW_BYTES = 1 << 31
_REFUSALS = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    pa.ArrowKeyError,
    OverflowError,
    ValueError,
    TypeError,
)


def from_values(values: Sequence[Any]) -> pa.Array:
    """Build a column from one Python value per row: with an Arrow type if there is one, arrays as tensors,
    anything else pickled."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN:
        if any(_is_array(kind) for kind in kinds):
            return _from_arrays(values)
        if _would_change(values, kinds):
            return objects.from_objects(values)
    elif str in kinds and bytes in kinds:  # Arrow would make bytes of the text
        return objects.from_objects(values)
    try:
        return pa.array(values, _fine_type(values, kinds))
    except _REFUSALS:
        return _from_mixed(values, kinds)


def _fine_type(values: Sequence[Any], kinds: set[type]) -> pa.DataType | None:
    """Return the type for pandas times and durations with nanoseconds, which Arrow would truncate; None lets
    Arrow infer it."""
    for kind in kinds:
        if issubclass(kind, datetime.datetime) and hasattr(kind, "nanosecond"):
            if any(getattr(value, "nanosecond", 0) for value in values):
                first = next(value for value in values if isinstance(value, datetime.datetime))
                return pa.timestamp("ns", pa.scalar(first).type.tz)
        elif issubclass(kind, datetime.timedelta) and hasattr(kind, "nanoseconds"):
            if any(getattr(value, "nanoseconds", 0) for value in values):
                return pa.duration("ns")
    return None


def _would_change(values: Sequence[Any], kinds: set[type]) -> bool:
    """True if Arrow accepts the values but returns different ones: lists for sets, timestamps for dates, mixed
    time zones.
    """
    if set in kinds or frozenset in kinds:
        return True
    if datetime.datetime in kinds:
        if datetime.date in kinds:
            return True
        zones = {value.tzinfo is None for value in values if isinstance(value, datetime.datetime)}
        return len(zones) > 1
    return False


def _from_mixed(values: Sequence[Any], kinds: set[type]) -> pa.Array:
    if kinds <= _NUMBERS and float in kinds and bool not in kinds:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if kinds <= {int, type(None)}:
        try:
            return pa.array(values, pa.uint64())
        except _REFUSALS:
            return objects.from_objects(values)
    if any(issubclass(kind, np.generic) for kind in kinds):
        plain = [value.item() if isinstance(value, np.generic) else value for value in values]
        if not any(isinstance(value, np.generic) for value in plain):
            return from_values(plain)
    return objects.from_objects(values)


def _is_array(kind: type) -> bool:
    return (
        issubclass(kind, np.ndarray)
        or kind.__module__.split(".", 1)[0] in ("torch", "jaxlib", "tensorflow")
        and hasattr(kind, "__array__")
    )


def as_ndarray(value: Any) -> np.ndarray:
    """Convert an array of another library to numpy; types that numpy lacks (bfloat16) are widened to float32."""
    if isinstance(value, np.ndarray):
        return value
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
        return np.asarray(value)
    except TypeError:
        if hasattr(value, "float"):
            return np.asarray(value.float())
        raise


def _from_arrays(values: Sequence[Any]) -> pa.Array:
    try:
        arrays = [None if value is None else as_ndarray(value) for value in values]
    except (TypeError, ValueError):
        return objects.from_objects(values)
    present = [each for each in arrays if each is not None]
    if all(each.ndim == 0 for each in present):
        if len(present) == len(arrays):
            return from_array(np.stack(present))
        return from_values([None if each is None else each.item() for each in arrays])
    try:
        return tensors.from_arrays(arrays)
    except TypeError:
        pass
    if all(each.dtype == object for each in present):  # lists, as arrays of objects, when a batch is of numpy
        try:
            return pa.array([None if each is None else each.tolist() for each in arrays])
        except _REFUSALS:
            pass
    return objects.from_objects(arrays)


def from_array(values: np.ndarray) -> pa.Array:
    """Build a column from an array whose first dimension is the rows."""
    if values.ndim > 1:
        try:
            return tensors.from_ndarray(values)
        except TypeError:
            return objects.from_objects(list(values))
    if values.dtype == object:
        return from_values(list(values))
    if values.dtype.kind == "U":
        return pa.array(values.tolist(), pa.string())
    if values.dtype.kind == "S":
        return pa.array(values.tolist(), pa.binary())
    try:
        return pa.array(values)
    except _REFUSALS:
        return from_values(_items(values))


def _items(values: np.ndarray) -> list[Any]:
    if values.dtype.kind == "V" and values.dtype.names is None:  # ml_dtypes' bfloat16 and the like
        try:
            return list(values.astype(np.float32).tolist())
        except (TypeError, ValueError):
            return list(values)
    return list(values.tolist())


def from_series(series: Any) -> pa.Array:
    """Build a column from a pandas Series or Index; NaN and pandas' other markers of missing values become null."""
    if series.dtype == object:
        return from_values([None if _is_missing(value) else value for value in series.tolist()])
    try:
        made = pa.Array.from_pandas(series)
    except _REFUSALS:  # complex numbers and other dtypes that Arrow lacks
        return from_values([None if _is_missing(value) else value for value in series.tolist()])
    if isinstance(made, pa.ChunkedArray):
        made = made.combine_chunks()
    if pa.types.is_large_string(made.type) and made.nbytes < _NARROW_BYTES:
        # Otherwise text from a DataFrame and text from rows would have different types in joins and groupings.
        made = made.cast(pa.string())
    if isinstance(made.type, pa.BaseExtensionType) and not tensors.is_tensor(made.type):
        # pandas' own types of periods and intervals cannot be computed with anywhere else.
        return from_values(series.tolist()) if not objects.is_object(made.type) else made
    return made


def _is_missing(value: Any) -> bool:
    if value is None or isinstance(value, float) and value != value:
        return True
    return type(value).__name__ in ("NAType", "NaTType")


#: The ids of types whose values are numbers of numpy as well.
NUMBERS = frozenset(
    kind.id
    for kind in (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(),
    )
)  # fmt: skip


def to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    """Convert a column to an array; where possible without a copy, and then read-only."""
    kind = column.type
    if kind.id in NUMBERS and column.num_chunks == 1:  # nearly all columns of training data
        only = column.chunk(0)
        if not only.null_count:
            numbers: np.ndarray = only.to_numpy()
            return numbers
    if tensors.is_tensor(kind):
        return tensors.to_ndarray(column)
    if objects.is_object(kind):
        return object_array(objects.to_objects(column))
    if isinstance(kind, pa.BaseExtensionType):
        if not pa.types.is_primitive(kind.storage_type):
            return object_array(column.to_pylist())
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], kind.storage_type)
        return to_numpy(column)
    if pa.types.is_dictionary(kind):  # chunk by chunk: Arrow gives wrong values for nulls in several
        column = pa.chunked_array([chunk.cast(kind.value_type) for chunk in column.chunks], kind.value_type)
        return to_numpy(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _from_lists(column)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if column.num_chunks == 1:
        chunk = column.chunk(0)
        dense = not chunk.null_count and pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
        made: np.ndarray = chunk.to_numpy(zero_copy_only=dense and not pa.types.is_temporal(kind))
        return made
    whole: np.ndarray = column.to_numpy()
    return whole


def _from_lists(column: pa.ChunkedArray) -> np.ndarray:
    """Return one array per row: slices of one array if the elements are numbers without nulls."""
    rows: list[np.ndarray | None] = []
    inner = column.type.value_type
    plain = pa.types.is_primitive(inner) and not pa.types.is_temporal(inner)
    for chunk in column.chunks:
        if not plain or chunk.flatten().null_count:
            rows += [None if value is None else _row_array(value, inner) for value in chunk.to_pylist()]
            continue
        flat = chunk.flatten().to_numpy(zero_copy_only=False)
        ends = np.cumsum(chunk.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
        parts: list[Any] = np.split(flat, ends[:-1]) if len(chunk) else []
        if chunk.null_count:
            valid = chunk.is_valid().to_pylist()
            parts = [part if ok else None for part, ok in zip(parts, valid, strict=True)]
        rows += parts
    return object_array(rows)


def _row_array(value: list[Any], inner: pa.DataType) -> np.ndarray:
    if pa.types.is_primitive(inner):
        made: np.ndarray = pa.array(value, inner).to_numpy(zero_copy_only=False)
        return made
    if pa.types.is_nested(inner) and not pa.types.is_struct(inner) and not pa.types.is_map(inner):
        return object_array([None if each is None else _row_array(each, inner.value_type) for each in value])
    return object_array(value)


def object_array(values: Sequence[Any]) -> np.ndarray:
    """Build an array of objects with one element per value, even if the values are arrays themselves."""
    out = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        out[at] = value
    return out


def to_values(column: pa.ChunkedArray) -> list[Any]:
    """Return one Python value per row: arrays if it is a column of arrays."""
    kind = column.type
    if tensors.is_tensor(kind):
        return tensors.to_arrays(column)
    if objects.is_object(kind):
        return objects.to_objects(column)
    values: list[Any] = column.to_pylist()
    return values
