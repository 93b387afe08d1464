"""Expressions over columns as expressions of Polars, wherever both compute the same.

NaN equals NaN in Polars and is larger than all numbers. In Arrow it equals nothing, so comparisons of floats
have a second condition here. Arithmetic happens in the type that Arrow's result has; that of decimals in units.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from skate.data.expressions.operations import Operation
from skate.data.expressions.tree import (
    AliasExpr,
    BinaryExpr,
    ColumnExpr,
    Expr,
    LiteralExpr,
    UnaryExpr,
)
from skate.data.relational import decimals
from skate.data.relational.kinds import demand, is_text, polars_type
from skate.data.relational.refusals import Unproven

_COMPARISONS = {
    Operation.GT: "__gt__", Operation.LT: "__lt__", Operation.GE: "__ge__", Operation.LE: "__le__",
    Operation.EQ: "__eq__", Operation.NE: "__ne__",
}  # fmt: skip
_ARITHMETIC = {
    Operation.ADD: "__add__", Operation.SUB: "__sub__", Operation.MUL: "__mul__", Operation.DIV: "__truediv__",
}  # fmt: skip
_CONNECTIVES = {Operation.AND: "__and__", Operation.OR: "__or__"}
_LITERALS = (bool, int, float, str, bytes, datetime.date, decimal.Decimal)
#: Integers up to this size are exact in every type of floats.
_EXACT = 1 << 24


class Translator:
    """Translates expressions over the columns of a schema. Raises Unproven for those that may differ.

    Args:
        largest: the largest absolute values of some decimals, in units of their last digit; the others have all digits of
            their types.
        is_stored: True if decimals are those of Polars, as in files, and not in units.
    """

    def __init__(
        self, polars: Any, schema: pa.Schema, largest: Mapping[str, int], is_stored: bool = False
    ) -> None:
        self.polars = polars
        self.schema = schema
        self.largest = largest
        self.is_stored = is_stored
        #: Types by the identity of their expressions, which are kept so that no other one gets it.
        self._kinds: dict[int, tuple[Expr, pa.DataType]] = {}

    def condition(self, expr: Expr) -> Any:
        """Translate a boolean expression."""
        if not pa.types.is_boolean(self.kind(expr)):
            raise Unproven(f"{expr!r} is not boolean")
        return self.value(expr)

    def kind(self, expr: Expr) -> pa.DataType:
        """Return the type of an expression's values."""
        known = self._kinds.get(id(expr))
        if known is None:
            found = expr.get_type(self.schema)
            if found is None:
                raise Unproven(f"the type of {expr!r}")
            known = self._kinds[id(expr)] = expr, demand(found)
        return known[1]

    def value(self, expr: Expr) -> Any:
        """Translate an expression."""
        if type(expr) is ColumnExpr:
            if pa.types.is_decimal(kind := self.kind(expr)) and self.is_stored:
                return decimals.stored(self.polars, expr.name, kind, self.largest)
            return self.polars.col(expr.name)
        if type(expr) is AliasExpr:
            return self.value(expr.expr)
        if type(expr) is LiteralExpr:
            return self._literal(expr.value, self.kind(expr))
        if type(expr) is UnaryExpr:
            operand = self.value(expr.operand)
            if expr.op is Operation.NOT:
                return ~self.condition(expr.operand)
            return operand.is_null() if expr.op is Operation.IS_NULL else operand.is_not_null()
        if type(expr) is BinaryExpr:
            return self._binary(expr)
        if decimals.is_cast(expr):
            return decimals.cast(self, expr)
        raise Unproven(f"{expr!r}")

    def _literal(self, value: Any, kind: pa.DataType) -> Any:
        if not isinstance(value, _LITERALS) or getattr(value, "tzinfo", None) is not None:
            raise Unproven(f"the value {value!r}")
        if isinstance(value, decimal.Decimal):
            return decimals.literal(self.polars, value, kind)
        return self.polars.lit(value, dtype=polars_type(self.polars, kind))

    def _binary(self, expr: BinaryExpr) -> Any:
        if expr.op in _CONNECTIVES:
            return getattr(self.condition(expr.left), _CONNECTIVES[expr.op])(self.condition(expr.right))
        if expr.op in (Operation.IN, Operation.NOT_IN):
            found = self._contained(expr)
            return found if expr.op is Operation.IN else ~found
        if expr.op in _COMPARISONS:
            return self._comparison(expr)
        if expr.op in _ARITHMETIC:
            return self._arithmetic(expr)
        raise Unproven(f"{expr!r}")

    def _comparison(self, expr: BinaryExpr) -> Any:
        kinds = [self.kind(child) for child in expr.children]
        if any(map(pa.types.is_decimal, kinds)):
            left, right = decimals.compared(self, expr)
        else:
            left, right = (self.value(child) for child in expr.children)
        if not (
            kinds[0].equals(kinds[1]) or any(map(pa.types.is_decimal, kinds)) or all(map(is_text, kinds))
        ):
            wide = self._common(expr)
            left, right = left.cast(wide), right.cast(wide)
        found = getattr(left, _COMPARISONS[expr.op])(right)
        floats = [
            side
            for side, kind, child in zip((left, right), kinds, expr.children, strict=True)
            if pa.types.is_floating(kind) and not _is_number(child)
        ]
        for side in floats:
            found = found | side.is_nan() if expr.op is Operation.NE else found & ~side.is_nan()
        if floats and not any(map(_is_number, expr.children)):
            # NaN beside null would decide what is unknown.
            found = self.polars.when(left.is_not_null() & right.is_not_null()).then(found)
        return found

    def _common(self, expr: BinaryExpr) -> Any:
        """Return the type in which numbers of two types are compared: Arrow raises where that is not exact."""
        kinds = [self.kind(child) for child in expr.children]
        if all(pa.types.is_signed_integer(kind) for kind in kinds):
            return self.polars.Int64
        return self._as_floats(expr, pa.float64())

    def _as_floats(self, expr: BinaryExpr, wanted: pa.DataType) -> Any:
        for child in expr.children:
            kind = self.kind(child)
            small = pa.types.is_integer(kind) and kind.bit_width < (32 if wanted == pa.float32() else 64)
            if not (pa.types.is_floating(kind) or small or _is_small(child)):
                raise Unproven(f"{expr!r}: {kind} as a float")
        if any(kind == pa.float32() for kind in map(self.kind, expr.children)) and wanted == pa.float64():
            if any(pa.types.is_integer(kind) for kind in map(self.kind, expr.children)):
                raise Unproven(f"{expr!r}")  # Arrow compares them as 32-bit floats
        return polars_type(self.polars, wanted)

    def _arithmetic(self, expr: BinaryExpr) -> Any:
        kind = self.kind(expr)
        if pa.types.is_decimal(kind):
            return decimals.arithmetic(self, expr)
        kinds = [self.kind(child) for child in expr.children]
        left, right = (self.value(child) for child in expr.children)
        if pa.types.is_floating(kind):
            if not kinds[0].equals(kinds[1]) and pa.float32() in (kind, *kinds):
                raise Unproven(f"{expr!r}")
            wide = self._as_floats(expr, kind)
        elif all(map(pa.types.is_signed_integer, kinds)) and expr.op is not Operation.DIV:
            wide = polars_type(self.polars, kind)
        else:
            raise Unproven(f"{expr!r}")
        return getattr(left.cast(wide), _ARITHMETIC[expr.op])(right.cast(wide))

    def _contained(self, expr: BinaryExpr) -> Any:
        kind = self.kind(expr.left)
        values = expr.right.value if type(expr.right) is LiteralExpr else None
        if not isinstance(values, list) or not values:
            raise Unproven(f"{expr!r}")
        wanted = str if is_text(kind) else int if pa.types.is_integer(kind) else None
        if any(type(each) is not wanted for each in values):
            raise Unproven(f"{expr!r}")
        if wanted is int:
            bits = kind.bit_width - pa.types.is_signed_integer(kind)
            low = -(1 << bits) if pa.types.is_signed_integer(kind) else 0
            if min(values) < low or max(values) >= 1 << bits:
                raise Unproven(f"{expr!r}")
        among = self.polars.Series("", values, dtype=polars_type(self.polars, kind))
        return self.value(expr.left).is_in(among.implode()).fill_null(False)


def _is_number(expr: Expr) -> bool:
    """True for a literal that is not NaN."""
    return type(expr) is LiteralExpr and expr.value == expr.value


def _is_small(expr: Expr) -> bool:
    return type(expr) is LiteralExpr and type(expr.value) is int and abs(expr.value) <= _EXACT
