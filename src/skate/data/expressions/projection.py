"""Expressions for several columns, and the columns that a sequence of expressions yields and needs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import columns
from skate.data.expressions.downloads import DownloadExpr
from skate.data.expressions.operations import Operation
from skate.data.expressions.tree import BinaryExpr, ColumnExpr, DottedExpr, Expr
from skate.data.steps.place import Place
from skate.data.steps.udf import of_users


class StarExpr(Expr):
    """All columns of a block."""

    kind_of_expression = "Star"

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        raise TypeError("star() yields several columns; it cannot be the value of a single one")

    def __repr__(self) -> str:
        return "star()"


class UnnestExpr(Expr):
    """The fields of a struct as columns of their own."""

    def __init__(self, expr: Expr) -> None:
        self.children = (expr,)

    @property
    def expr(self) -> Expr:
        """The struct to unnest."""
        return self.children[0]

    def alias(self, name: str) -> Expr:
        raise TypeError(f"{self!r} yields several columns and cannot have a single name")

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        raise TypeError(f"{self!r} yields several columns; pass it to with_columns() directly")

    def fields(self, table: pa.Table, place: Place | None = None) -> dict[Any, Any]:
        """Return the columns by name, null where the struct is null. Raises TypeError if the value is not a struct."""
        found = self.expr.evaluate(table, place)
        if not pa.types.is_struct(found.type):
            raise TypeError(f"{self!r} needs a column of structs, got {found.type}")
        return {field.name: pc.struct_field(found, [at]) for at, field in enumerate(found.type)}

    def __repr__(self) -> str:
        return f"unnest({self.expr!r})"


def column_of(expr: Expr, table: pa.Table, place: Place | None = None) -> Any:
    """Evaluate an expression for a block: one value per row."""
    found = evaluated(expr, table, place)
    if not isinstance(found, pa.Scalar):
        return found
    if isinstance(found.type, pa.BaseExtensionType):
        return columns.from_values([found.as_py()] * table.num_rows)
    return pa.repeat(found, table.num_rows)


def evaluated(expr: Expr, table: pa.Table, place: Place | None = None) -> Any:
    """Evaluate like `Expr.evaluate`, but raise errors as user code errors; Arrow's errors name the expression."""
    try:
        return expr.evaluate(table, place)
    except pa.ArrowException as error:
        raise of_users(type(error)(f"{expr!r} cannot be computed: {error}")) from None
    except Exception as error:  # from a function, or from values that do not fit
        raise of_users(error)  # noqa: B904  # it is the same one


def mask_of(expr: Expr, table: pa.Table, place: Place | None = None) -> Any:
    """Return a mask of the rows to keep. Raises TypeError if the expression is not boolean."""
    found = column_of(expr, table, place)
    if pa.types.is_null(found.type):
        found = found.cast(pa.bool_())
    if not pa.types.is_boolean(found.type):
        raise TypeError(
            f"a filter needs a boolean expression, but {expr!r} has type {found.type}; use a comparison"
        )
    return found


def columns_needed(*expressions: Expr) -> tuple[str, ...] | None:
    """Return the columns that expressions read, in order of appearance; None if they read all of them."""
    names: dict[str, None] = {}
    for expression in expressions:
        for each in expression.walk():
            if isinstance(each, StarExpr):
                return None
            if isinstance(each, (ColumnExpr, DottedExpr)):
                names[each.name] = None
            elif isinstance(each, DownloadExpr):
                names[each.uri_column_name] = None
    return tuple(names)


def substituted(expr: Expr, given: dict[str, Expr]) -> Expr:
    """Replace columns in the expression with the expressions they are computed from."""
    if isinstance(expr, ColumnExpr):
        return given.get(expr.name, expr)
    if not expr.children:
        return expr
    return expr.rebuilt(*(substituted(child, given) for child in expr.children))


def conjuncts(expr: Expr) -> list[Expr]:
    """Return the conditions joined by `&` at the top of an expression."""
    if isinstance(expr, BinaryExpr) and expr.op is Operation.AND:
        return [*conjuncts(expr.left), *conjuncts(expr.right)]
    return [expr]
