"""The columns of a dataset: names and types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skate.data.block.tensors import type_name


class Schema:
    """Names and types of columns.

    Args:
        base_schema: the Arrow schema.
        data_context: accepted for compatibility.
    """

    def __init__(self, base_schema: pa.Schema, *, data_context: Any = None) -> None:
        if not isinstance(base_schema, pa.Schema):
            raise TypeError(f"base_schema must be a pyarrow.Schema, got {type(base_schema).__name__}")
        self.base_schema = base_schema

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.base_schema.names)

    @property
    def types(self) -> list[Any]:
        """The Arrow types of the columns."""
        return list(self.base_schema.types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.base_schema.equals(other.base_schema)

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __repr__(self) -> str:
        cells = [("Column", "Type")] + [(field.name, type_name(field.type)) for field in self.base_schema]
        left = max(len(name) for name, _ in cells)
        cells.insert(1, ("------", "----"))
        return "\n".join(f"{name:<{left}}  {kind}".rstrip() for name, kind in cells)
