"""Decimals as integers, in units of their last digit.

Inside of a stage, a decimal is its value times ten to the power of its scale: a 64-bit integer where the largest possible
value fits, otherwise a decimal of Polars without a scale, which has 128 bits. So products need no division, nothing is rounded,
and Arrow's scales are only kept in the schema of the frame. A column may be wider than it had to be, so those who use it
cast it to what they need. The table of the result gets the types of Arrow again.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.expressions.operations import Operation
from skate.data.expressions.tree import AliasExpr, BinaryExpr, ColumnExpr, Expr, FunctionExpr, LiteralExpr
from skate.data.relational.refusals import Unproven

#: The digits of a decimal at most.
DIGITS = 38
_EXACT = decimal.Context(prec=2 * DIGITS)
_NARROW = 1 << 63
_OPERATORS = {Operation.ADD: "__add__", Operation.SUB: "__sub__", Operation.MUL: "__mul__"}


class Expressions(Protocol):
    """A translator of the expressions over a frame."""

    polars: Any
    largest: Mapping[str, int]

    def kind(self, expr: Expr) -> pa.DataType:
        """Return the type of an expression."""

    def value(self, expr: Expr) -> Any:
        """Translate an expression."""


# -- columns


def units_type(polars: Any, most: int) -> Any:
    """Return the type of Polars for values whose absolute values are at most some units. Raises Unproven beyond 38 digits."""
    if most >= 10**DIGITS:
        raise Unproven(f"decimals of more than {DIGITS} digits")
    return polars.Int64 if most < _NARROW else polars.Decimal(DIGITS, 0)


def largest_of(kind: pa.DataType) -> int:
    """Return the largest absolute value of a type of decimals, in units of its last digit."""
    return int(10**kind.precision) - 1


def stored(polars: Any, name: str, kind: pa.DataType, largest: Mapping[str, int]) -> Any:
    """Return the units of a column that is still a decimal of Polars."""
    most = min(largest_of(kind), largest.get(name, largest_of(kind)))
    return polars.col(name).to_physical().cast(units_type(polars, most))


def in_units(polars: Any, lazy: Any, schema: pa.Schema, largest: Mapping[str, int]) -> Any:
    """Return a frame whose decimals are in units, given one with decimals of Polars."""
    made = [
        stored(polars, field.name, field.type, largest) for field in schema if pa.types.is_decimal(field.type)
    ]
    return lazy.with_columns(made) if made else lazy


def alike(polars: Any, lazy: Any, names: Sequence[str], schema: pa.Schema, largest: Mapping[str, int]) -> Any:
    """Return a frame whose named columns, as far as they are decimals, have the types that their largest values ask for."""
    made = []
    for field in map(schema.field, names):
        if pa.types.is_decimal(field.type):
            most = min(largest_of(field.type), largest.get(field.name, largest_of(field.type)))
            made.append(polars.col(field.name).cast(units_type(polars, most)))
    return lazy.with_columns(made) if made else lazy


def restored(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a column of the result, or lists of it, in a type with decimals, given the units."""
    return pa.chunked_array([_restored(chunk, kind) for chunk in column.chunks], kind)


def _restored(units: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_decimal(kind):
        return pa.LargeListArray.from_arrays(units.offsets, _restored(units.values, kind.value_type))
    if not pa.types.is_decimal(units.type):
        units = units.cast(pa.decimal128(DIGITS, 0))
    return pa.Array.from_buffers(kind, len(units), units.buffers(), units.null_count, units.offset)


def holds_decimals(kind: pa.DataType) -> bool:
    """True for decimals and lists of them."""
    return bool(
        pa.types.is_decimal(kind) or (pa.types.is_large_list(kind) and pa.types.is_decimal(kind.value_type))
    )


# -- expressions; `over` is the translator of the columns


def literal(polars: Any, value: decimal.Decimal, kind: pa.DataType) -> Any:
    """Translate a literal."""
    units = _units(value, kind.scale)
    return polars.lit(decimal.Decimal(units), dtype=polars.Decimal(DIGITS, 0))


def arithmetic(over: Expressions, expr: BinaryExpr) -> Any:
    """Translate a sum, a difference or a product whose result is a decimal."""
    if expr.op not in _OPERATORS:
        raise Unproven(f"{expr!r}: quotients are rounded")
    scales = [_scale(over.kind(child)) for child in expr.children]
    scale = over.kind(expr).scale
    if expr.op is Operation.MUL and scale == sum(scales):
        wanted = scales
    elif expr.op is not Operation.MUL:
        wanted = [scale, scale]
    else:
        raise Unproven(f"{expr!r}")
    left, right = _scaled(over, expr.children, wanted, _of_operation(over, expr))
    return getattr(left, _OPERATORS[expr.op])(right)


def compared(over: Expressions, expr: BinaryExpr) -> tuple[Any, Any]:
    """Translate the operands of a comparison, of which at least one is a decimal, to one scale."""
    scale = max(_scale(over.kind(child)) for child in expr.children)
    left, right = _scaled(over, expr.children, [scale, scale], 0)
    return left, right


def cast(over: Expressions, expr: FunctionExpr) -> Any:
    """Translate a cast of an integer or a decimal to a decimal that has room for all of its digits."""
    kind = over.kind(expr)
    if not pa.types.is_decimal(kind) or kind.scale < _scale(over.kind(expr.children[0])):
        raise Unproven(f"{expr!r}")
    (found,) = _scaled(over, expr.children, [kind.scale], 0)
    if largest(over, expr) > largest_of(kind):
        raise Unproven(f"{expr!r} may fail")
    return found


def is_cast(expr: Expr) -> TypeGuard[FunctionExpr]:
    """True for a cast."""
    return type(expr) is FunctionExpr and expr.function == "cast"


def _scaled(over: Expressions, exprs: Sequence[Expr], scales: Sequence[int], most: int) -> list[Any]:
    """Translate integers and decimals to scales not smaller than their own, in a type that has room for all, and for `most`."""
    for expr in exprs:
        if not (pa.types.is_decimal(over.kind(expr)) or pa.types.is_integer(over.kind(expr))):
            raise Unproven(f"{expr!r}: {over.kind(expr)} as a decimal")
    steps = [scale - _scale(over.kind(expr)) for expr, scale in zip(exprs, scales, strict=True)]
    ends = [largest(over, expr) * 10**step for expr, step in zip(exprs, steps, strict=True)]
    kind = units_type(over.polars, max(most, *ends))
    made = []
    for expr, step in zip(exprs, steps, strict=True):
        units = over.value(expr).cast(kind)
        made.append(units * over.polars.lit(decimal.Decimal(10**step)).cast(kind) if step else units)
    return made


# -- the largest values


def of_table(table: pa.Table) -> dict[str, int]:
    """Return the largest absolute values of a table's decimals, in units of their last digit."""
    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_decimal(column.type):
            ends = pc.min_max(column).as_py().values()
            units = [abs(_units(each, column.type.scale)) for each in ends if each is not None]
            found[name] = max(units, default=0)
    return found


def known_to_all(largest: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return the largest values of the columns that all of some inputs know."""
    names = set(largest[0]).intersection(*largest[1:]) if largest else ()
    return {name: max(each[name] for each in largest) for name in names}


def largest(over: Expressions, expr: Expr) -> int:
    """Return the largest absolute value that an integer or a decimal may have, in units of its last digit."""
    kind = over.kind(expr)
    most: int = largest_of(kind) if pa.types.is_decimal(kind) else 1 << kind.bit_width
    if type(expr) is AliasExpr:
        return largest(over, expr.expr)
    if type(expr) is ColumnExpr:
        known: int = over.largest.get(expr.name, most)
        return min(most, known)
    if is_cast(expr) and pa.types.is_decimal(kind):
        (operand,) = expr.children
        before = over.kind(operand)
        if pa.types.is_decimal(before) or pa.types.is_integer(before):
            more: int = 10 ** max(0, kind.scale - _scale(before))
            return largest(over, operand) * more
    if type(expr) is LiteralExpr and type(expr.value) is int:
        return abs(expr.value)
    if type(expr) is LiteralExpr and type(expr.value) is decimal.Decimal:
        return abs(_units(expr.value, kind.scale))
    if type(expr) is BinaryExpr and expr.op in _OPERATORS and pa.types.is_decimal(kind):
        return min(most, _of_operation(over, expr))
    return most


def _of_operation(over: Expressions, expr: BinaryExpr) -> int:
    left, right = (largest(over, child) for child in expr.children)
    if expr.op is Operation.MUL:
        return left * right
    scale = over.kind(expr).scale
    steps = [scale - _scale(over.kind(child)) for child in expr.children]
    total: int = left * 10 ** steps[0] + right * 10 ** steps[1]
    return total


def _units(value: decimal.Decimal, scale: int) -> int:
    return int(value.scaleb(scale, _EXACT))


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0
