"""`expr.struct`: fields of structs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.data.expressions.namespaces.base import Namespace

if TYPE_CHECKING:
    from skate.data.expressions.tree import Expr


class StructNamespace(Namespace):
    """Functions of structs."""

    _title = "struct"

    def __getitem__(self, key: str | int) -> Expr:
        if isinstance(key, str):
            return self.field(key)
        if isinstance(key, int):
            return self.field_by_index(key)
        raise TypeError(f"Struct indices must be strings or integers, not {type(key).__name__}: {key!r}")

    def field(self, field_name: str) -> Expr:
        """Return the field with the given name."""
        return self._call("field", "struct_field", field_name)

    def field_by_index(self, index: int) -> Expr:
        """Return the field at the given position."""
        return self._call("field_by_index", "struct_field", [index])
