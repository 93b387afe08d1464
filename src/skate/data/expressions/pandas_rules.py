"""Expressions over data that came as DataFrames: division as pandas defines it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skate.data.expressions import operations
from skate.data.expressions.operations import Operation
from skate.data.expressions.tree import BinaryExpr, Expr
from skate.data.steps.place import Place


class FloatQuotient(BinaryExpr):
    """A quotient of floats, also of integers, as pandas defines it; 1 / 0 is infinite."""

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        return operations.float_quotient(*(child.evaluate(table, place) for child in self.children))


def by_rules_of_pandas(expr: Expr) -> Expr:
    """Return the expression for data that came as DataFrames, where `/` of integers gives floats."""
    if expr.children:
        expr = expr.rebuilt(*map(by_rules_of_pandas, expr.children))
    if type(expr) is BinaryExpr and expr.op is Operation.DIV:
        return FloatQuotient(expr.op, expr.left, expr.right)
    return expr
