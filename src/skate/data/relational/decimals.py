"""Arithmetic and comparisons of decimals.

Polars computes in the larger scale of two operands and rounds to it. Arrow's product has the sum of both scales, so operands
are converted to the scale of the result first: then nothing is left to round. Polars refuses values of more than 38 digits,
so the largest possible value of each computation is known.
"""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa

from skate.data.expressions.operations import Operation
from skate.data.expressions.tree import AliasExpr, BinaryExpr, ColumnExpr, Expr, LiteralExpr
from skate.data.relational.refusals import Unproven

#: The digits of a decimal at most.
DIGITS = 38
_OPERATORS = {Operation.ADD: "__add__", Operation.SUB: "__sub__", Operation.MUL: "__mul__"}


def arithmetic(over: Any, expr: BinaryExpr) -> Any:
    """Translate a sum, a difference or a product whose result is a decimal; `over` is the translator."""
    if expr.op not in _OPERATORS:
        raise Unproven(f"{expr!r}: Polars rounds quotients")
    scale = over.kind(expr).scale
    left, right = (scaled(over, child, scale) for child in expr.children)
    return getattr(left, _OPERATORS[expr.op])(right)


def compared(over: Any, expr: BinaryExpr) -> tuple[Any, Any]:
    """Translate the operands of a comparison, of which at least one is a decimal, to one scale."""
    scale = max(_scale(over.kind(child)) for child in expr.children)
    left, right = (scaled(over, child, scale) for child in expr.children)
    return left, right


def scaled(over: Any, expr: Expr, scale: int) -> Any:
    """Translate a decimal or an integer to a decimal of a scale not smaller than its own."""
    kind = over.kind(expr)
    if not (pa.types.is_decimal(kind) or pa.types.is_integer(kind)):
        raise Unproven(f"{expr!r}: {kind} as a decimal")
    if largest(over, expr) * 10 ** (scale - _scale(kind)) >= 10**DIGITS:
        raise Unproven(f"{expr!r} may have more than {DIGITS} digits")
    return over.value(expr).cast(over.polars.Decimal(DIGITS, scale))


def largest(over: Any, expr: Expr) -> int:
    """Return the largest absolute value that an integer or a decimal may have, in units of its last digit."""
    kind = over.kind(expr)
    most: int = 10**kind.precision - 1 if pa.types.is_decimal(kind) else 1 << kind.bit_width
    if type(expr) is AliasExpr:
        return largest(over, expr.expr)
    if type(expr) is ColumnExpr:
        known: int = over.largest.get(expr.name, most)
        return min(most, known)
    if type(expr) is LiteralExpr and type(expr.value) is int:
        return abs(expr.value)
    if type(expr) is LiteralExpr and type(expr.value) is decimal.Decimal:
        return abs(int(expr.value.scaleb(kind.scale, decimal.Context(prec=2 * DIGITS))))
    if type(expr) is BinaryExpr and expr.op in _OPERATORS and pa.types.is_decimal(kind):
        left, right = (largest(over, child) for child in expr.children)
        if expr.op is Operation.MUL:
            return min(most, left * right)
        steps = [kind.scale - _scale(over.kind(child)) for child in expr.children]
        total: int = left * 10 ** steps[0] + right * 10 ** steps[1]
        return min(most, total)
    return most


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0
