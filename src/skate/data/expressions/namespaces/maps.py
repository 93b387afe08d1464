"""`expr.map`: maps, also as lists of structs of key and value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate.data.expressions.namespaces.base import Namespace
from skate.data.expressions.namespaces.lists import list_over

if TYPE_CHECKING:
    from skate.data.expressions.tree import Expr


class MapNamespace(Namespace):
    """Functions of maps."""

    _title = "map"

    def keys(self) -> Expr:
        """Return the keys of each map, as a list."""
        return self._call("keys", keys_of)

    def values(self) -> Expr:
        """Return the values of each map, as a list."""
        return self._call("values", values_of)


def keys_of(column: Any) -> Any:
    """Return the keys of each map of a column."""
    return _component(column, 0)


def values_of(column: Any) -> Any:
    """Return the values of each map of a column."""
    return _component(column, 1)


def _component(column: Any, which: int) -> Any:
    kind = column.type
    pairs = pa.types.is_map(kind) or (
        (pa.types.is_list(kind) or pa.types.is_large_list(kind))
        and pa.types.is_struct(kind.value_type)
        and kind.value_type.num_fields >= 2
    )
    if not pairs:
        raise TypeError(f".map needs a column of maps, or of lists of structs of key and value, got {kind}")
    if pa.types.is_map(kind):
        # The same buffers, read as a list of structs.
        plain = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
        column = column.cast(plain)
    return list_over(column, lambda chunk: chunk.values.field(which))
