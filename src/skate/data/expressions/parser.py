"""Conditions written as text, such as "id > 3 and name == 'x'".

Python's grammar is parsed and turned into an expression; nothing is ever evaluated. It supports column names,
values, lists, comparisons (also chained), `and`, `or`, `not`, `in`, arithmetic, struct fields (a.b), and a
few functions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from skate.data.expressions.operations import Operation
from skate.data.expressions.tree import BinaryExpr, ColumnExpr, DottedExpr, Expr, LiteralExpr

_COMPARED: dict[type, Operation] = {
    ast.Gt: Operation.GT, ast.Lt: Operation.LT, ast.GtE: Operation.GE, ast.LtE: Operation.LE, ast.Eq: Operation.EQ,
    ast.NotEq: Operation.NE,
}  # fmt: skip
_ARITHMETIC: dict[type, Operation] = {
    ast.Add: Operation.ADD, ast.Sub: Operation.SUB, ast.Mult: Operation.MUL, ast.Div: Operation.DIV, ast.Mod: Operation.MOD,
    ast.FloorDiv: Operation.FLOORDIV, ast.BitAnd: Operation.AND, ast.BitOr: Operation.OR,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "is_null": lambda value: value.is_null(),
    "is_valid": lambda value: value.is_not_null(),
    "is_not_null": lambda value: value.is_not_null(),
    "is_nan": lambda value: value._call("is_nan", "is_nan"),
    "is_in": lambda value, among: value.is_in(_values(among)),
    "abs": lambda value: value.abs(),
    "lower": lambda value: value.str.lower(),
    "upper": lambda value: value.str.upper(),
    "starts_with": lambda value, text: value.str.starts_with(_value(text)),
    "ends_with": lambda value, text: value.str.ends_with(_value(text)),
    "contains": lambda value, text: value.str.contains(_value(text)),
    "col": lambda name: ColumnExpr(_value(name)),
}


def parse(text: str) -> Expr:
    """Parse text into an expression. Raises ValueError naming the unsupported part of the text and its
    position.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        at = "" if error.offset is None else f", at character {error.offset}"
        raise ValueError(
            f"Invalid syntax in the expression: {text}: {error.msg}{at}; an example is \"id > 3 and name == 'x'\""
        ) from None
    except (RecursionError, MemoryError):
        raise ValueError(f"the expression {text[:80]!r}... is nested too deeply") from None
    return _Reader(text).read(tree.body)


class _Reader:
    """Parses one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: ast.expr) -> Expr:
        read = getattr(self, f"_{type(node).__name__.lower()}", None)
        if read is None:
            raise self._unknown(node)
        found: Expr = read(node)
        return found

    def _unknown(self, node: ast.AST, hint: str = "") -> ValueError:
        part = ast.get_source_segment(self.text.strip(), node) or ast.dump(node)
        return ValueError(
            f"{part!r} is not understood in the expression {self.text!r}{hint}; supported are column names, values, lists, "
            f"comparisons, and, or, not, in, arithmetic, and the functions {', '.join(sorted(_FUNCTIONS))}"
        )

    def _name(self, node: ast.Name) -> Expr:
        return ColumnExpr(node.id)

    def _constant(self, node: ast.Constant) -> Expr:
        if node.value is Ellipsis or isinstance(node.value, complex):
            raise self._unknown(node)
        return LiteralExpr(node.value)

    def _list(self, node: ast.List | ast.Tuple | ast.Set) -> Expr:
        values = []
        for each in node.elts:
            found = self.read(each)
            if not isinstance(found, LiteralExpr):
                raise self._unknown(each, " (a list may only contain values)")
            values.append(found.value)
        return LiteralExpr(values)

    _tuple = _set = _list

    def _attribute(self, node: ast.Attribute) -> Expr:
        field = self.read(node.value).struct.field(node.attr)
        names = ast.unparse(node)
        return DottedExpr(names, field) if all(map(str.isidentifier, names.split("."))) else field

    def _unaryop(self, node: ast.UnaryOp) -> Expr:
        operand = self.read(node.operand)
        if isinstance(node.op, (ast.Not, ast.Invert)):
            return ~operand
        if isinstance(node.op, ast.UAdd):
            return operand
        if isinstance(operand, LiteralExpr) and isinstance(operand.value, (int, float)):
            return LiteralExpr(-operand.value)
        return -operand

    def _boolop(self, node: ast.BoolOp) -> Expr:
        first, *others = (self.read(value) for value in node.values)
        for other in others:
            first = first & other if isinstance(node.op, ast.And) else first | other
        return first

    def _binop(self, node: ast.BinOp) -> Expr:
        operation = _ARITHMETIC.get(type(node.op))
        if operation is None:
            raise self._unknown(node)
        return BinaryExpr(operation, self.read(node.left), self.read(node.right))

    def _compare(self, node: ast.Compare) -> Expr:
        left = self.read(node.left)
        whole: Expr | None = None
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.read(comparator)
            part = self._compared(node, left, operator, right)
            whole = part if whole is None else whole & part
            left = right
        assert whole is not None
        return whole

    def _compared(self, node: ast.Compare, left: Expr, operator: ast.cmpop, right: Expr) -> Expr:
        if isinstance(operator, (ast.In, ast.NotIn)):
            if not (isinstance(right, LiteralExpr) and isinstance(right.value, list)):
                raise self._unknown(node, " (`in` requires a list of values)")
            return left.is_in(right.value) if isinstance(operator, ast.In) else left.not_in(right.value)
        if isinstance(operator, (ast.Is, ast.IsNot)):
            if not (isinstance(right, LiteralExpr) and right.value is None):
                raise self._unknown(node, " (`is` requires None)")
            return left.is_null() if isinstance(operator, ast.Is) else left.is_not_null()
        return BinaryExpr(_COMPARED[type(operator)], left, right)

    def _call(self, node: ast.Call) -> Expr:
        function = _FUNCTIONS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if function is None:
            raise self._unknown(node.func, f" (Unsupported function: {ast.unparse(node.func)})")
        if node.keywords:
            raise self._unknown(node, " (keyword arguments are not supported)")
        arguments = [self.read(each) for each in node.args]
        try:
            return function(*arguments)
        except TypeError as error:
            raise self._unknown(node, f" ({error})") from None


def _value(expr: Expr) -> Any:
    if not isinstance(expr, LiteralExpr):
        raise TypeError(f"{expr!r} must be a value")
    return expr.value


def _values(expr: Expr) -> Any:
    found = _value(expr)
    if not isinstance(found, list):
        raise TypeError(f"{expr!r} must be a list of values")
    return found
