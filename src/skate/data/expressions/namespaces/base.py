"""What all namespaces have in common: the expression they are asked of, and how they make functions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.data.expressions.tree import Expr


class Namespace:
    """Functions of one expression."""

    _title = ""

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def _call(self, name: str, function: Any, *options: Any, **named: Any) -> Expr:
        return self._expr._call(f"{self._title}.{name}", function, *options, **named)
