"""Conditions that a reader applies itself, as expressions of `pyarrow.dataset`.

Arrow's readers compute with the same kernels, but learn the types only while reading. So a condition is pushed
down only if each part of it means the same for all types: comparisons, and/or/not, tests for null, membership,
plain arithmetic.
"""

from __future__ import annotations

import pyarrow.compute as pc

from skate.data.expressions.operations import SYMBOLS, Operation
from skate.data.expressions.projection import conjuncts
from skate.data.expressions.tree import BinaryExpr, ColumnExpr, Expr, LiteralExpr, UnaryExpr

_EXACT = (set(SYMBOLS) | {Operation.IN, Operation.NOT_IN}) - {
    Operation.DIV,
    Operation.MOD,
    Operation.FLOORDIV,
}
_SCALARS = (int, float, str, bytes, bool, list, tuple)


def pushable(expr: Expr) -> bool:
    """True if a reader would return exactly the rows that the expression selects."""
    for each in expr.walk():
        if isinstance(each, BinaryExpr):
            if each.op not in _EXACT:
                return False
            if each.op is Operation.ADD and any(_text(child) for child in each.children):
                return False
            if each.op in (Operation.IN, Operation.NOT_IN) and not isinstance(each.right, LiteralExpr):
                return False
        elif isinstance(each, LiteralExpr):
            # Readers convert values of other types in their own way.
            if not isinstance(each.value, _SCALARS) and type(each.value).__module__ not in (
                "datetime",
                "decimal",
            ):
                return False
        elif not isinstance(each, (ColumnExpr, UnaryExpr)):
            return False
    return True


def _text(expr: Expr) -> bool:
    return isinstance(expr, LiteralExpr) and isinstance(expr.value, str)


def split(predicate: Expr) -> tuple[pc.Expression | None, Expr | None]:
    """Split a condition into the part for the reader and the part to apply afterwards; None for an empty part."""
    taken: pc.Expression | None = None
    left: Expr | None = None
    for part in conjuncts(predicate):
        if pushable(part):
            made = part.to_pyarrow()
            taken = made if taken is None else taken & made
        else:
            left = part if left is None else left & part
    return taken, left
