"""Base of all namespaces: the expression they belong to, and how they build calls."""

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
