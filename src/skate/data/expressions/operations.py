"""The operators of expressions over Arrow arrays and scalars, and their notation."""

from __future__ import annotations

import enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class Operation(str, enum.Enum):
    """An operator with one or two operands."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    FLOORDIV = "floordiv"
    GT = "gt"
    LT = "lt"
    GE = "ge"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    IN = "in"
    NOT_IN = "not_in"


#: The infix notation of operators and their precedence (as in Python).
SYMBOLS = {
    Operation.ADD: ("+", 6), Operation.SUB: ("-", 6), Operation.MUL: ("*", 7), Operation.DIV: ("/", 7),
    Operation.MOD: ("%", 7), Operation.FLOORDIV: ("//", 7), Operation.GT: (">", 2), Operation.LT: ("<", 2),
    Operation.GE: (">=", 2), Operation.LE: ("<=", 2), Operation.EQ: ("==", 2), Operation.NE: ("!=", 2),
    Operation.AND: ("&", 5), Operation.OR: ("|", 4),
}  # fmt: skip

_COMPARED = {
    Operation.GT: pc.greater, Operation.LT: pc.less, Operation.GE: pc.greater_equal, Operation.LE: pc.less_equal,
    Operation.EQ: pc.equal, Operation.NE: pc.not_equal,
}  # fmt: skip
_SIMPLE = {
    Operation.SUB: pc.subtract, Operation.MUL: pc.multiply, Operation.DIV: pc.divide, Operation.AND: pc.and_kleene,
    Operation.OR: pc.or_kleene,
}  # fmt: skip


def binary(operation: Operation, left: Any, right: Any) -> Any:
    """Apply an operator to two operands, each an array or a scalar. Raises TypeError or an ArrowException for
    incompatible types."""
    left, right = _decoded(left), _decoded(right)
    if operation in _COMPARED:
        return _COMPARED[operation](left, right)
    if operation is Operation.ADD:
        if _is_text(left.type) or _is_text(right.type):
            return _joined(left, right)
        return pc.add(left, right)
    if operation in _SIMPLE:
        return _SIMPLE[operation](left, right)
    quotient, rest = _floored(left, right)
    return quotient if operation is Operation.FLOORDIV else rest


def float_quotient(left: Any, right: Any) -> Any:
    """Divide; integers become floats first."""
    operands = (_decoded(left), _decoded(right))
    return pc.divide(
        *(each.cast(pa.float64()) if pa.types.is_integer(each.type) else each for each in operands)
    )


def unary(operation: Operation, operand: Any) -> Any:
    """Apply an operator to one operand."""
    if operation is Operation.NOT:
        return pc.invert(operand)
    return pc.is_null(operand) if operation is Operation.IS_NULL else pc.is_valid(operand)


def contained(operand: Any, values: Any) -> Any:
    """Return True where a value is in `values` (an array, or a list as one scalar); null is in them if they
    hold a null.
    """
    operand = _decoded(operand)
    if isinstance(values, pa.ListScalar):
        values = values.values if values.is_valid else pa.nulls(0)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_null(operand.type):
        operand = operand.cast(values.type)
    if values.type != operand.type:
        try:
            values = values.cast(operand.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            operand = operand.cast(values.type)
    return pc.is_in(operand, value_set=values)


def _decoded(value: Any) -> Any:
    if pa.types.is_dictionary(value.type):
        return value.cast(value.type.value_type)
    return value


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _joined(left: Any, right: Any) -> Any:
    kinds = {left.type, right.type}
    if not all(_is_text(kind) or pa.types.is_null(kind) for kind in kinds):
        raise TypeError(
            f"text can only be added to text, got {left.type} and {right.type}; cast the other operand"
        )
    if len(kinds) > 1:
        wide = pa.large_string() if pa.large_string() in kinds else pa.string()
        left, right = left.cast(wide), right.cast(wide)
    return pc.binary_join_element_wise(left, right, pa.scalar("", left.type))


def _floored(left: Any, right: Any) -> tuple[Any, Any]:
    """Return quotient and remainder as Python defines them, as doubles; integers are divided exactly first."""
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        quotient = pc.divide(left, right)
        rest = pc.subtract(left, pc.multiply(quotient, right))
        zero = pa.scalar(0, rest.type)
        differ = pc.xor(pc.less(rest, zero), pc.less(right, pa.scalar(0, right.type)))
        off = pc.and_(pc.not_equal(rest, zero), differ)
        quotient = pc.if_else(off, pc.subtract(quotient, 1), quotient)
        rest = pc.if_else(off, pc.add(rest, right), rest)
        return quotient.cast(pa.float64(), safe=False), rest.cast(pa.float64(), safe=False)
    quotient = pc.floor(pc.divide(left, right))
    return quotient, pc.subtract(left, pc.multiply(quotient, right))


def as_pyarrow(operation: Operation, left: pc.Expression, right: pc.Expression, text: bool) -> pc.Expression:
    """Apply an operator to two operands of `pyarrow.dataset`; `text` if one is known to be text, because
    types are unknown before reading."""
    if operation in _COMPARED:
        return _COMPARED[operation](left, right)
    if operation is Operation.ADD:
        return pc.binary_join_element_wise(left, right, pc.scalar("")) if text else pc.add(left, right)
    if operation in _SIMPLE:
        return _SIMPLE[operation](left, right)
    quotient = pc.floor(pc.divide(left.cast(pa.float64()), right))
    return quotient if operation is Operation.FLOORDIV else pc.subtract(left, pc.multiply(quotient, right))
