"""Expressions over columns: `ray.data.expressions`.

tree         an expression as a tree, its operators
operations   the operators applied to Arrow arrays
namespaces/  functions of text, lists, structs, maps, dates, numbers
functions    user-defined functions
generated    columns generated without input
downloads    the bytes behind URIs
projection   expressions for several columns; which columns an expression needs
parsing      expressions from text such as "id > 3 and name == 'x'"
pushdown     conditions that a Parquet reader can apply itself
"""

from __future__ import annotations

from typing import Any

from skate.data.expressions.downloads import DownloadExpr, download
from skate.data.expressions.functions import UDFExpr, pyarrow_udf, udf
from skate.data.expressions.generated import (
    MonotonicallyIncreasingIdExpr,
    RandomExpr,
    UUIDExpr,
    monotonically_increasing_id,
    random,
    uuid,
)
from skate.data.expressions.namespaces.dates import DatetimeNamespace as _DatetimeNamespace
from skate.data.expressions.namespaces.lists import ArrayNamespace as _ArrayNamespace
from skate.data.expressions.namespaces.lists import ListNamespace as _ListNamespace
from skate.data.expressions.namespaces.maps import MapNamespace as _MapNamespace
from skate.data.expressions.namespaces.strings import StringNamespace as _StringNamespace
from skate.data.expressions.namespaces.structs import StructNamespace as _StructNamespace
from skate.data.expressions.operations import Operation
from skate.data.expressions.projection import StarExpr, UnnestExpr
from skate.data.expressions.tree import (
    AliasExpr,
    BinaryExpr,
    ColumnExpr,
    Expr,
    FunctionExpr,
    LiteralExpr,
    UnaryExpr,
)


def col(name: str) -> ColumnExpr:
    """Refer to a column by name."""
    return ColumnExpr(name)


def lit(value: Any) -> LiteralExpr:
    """Make a constant with the same value in all rows."""
    return LiteralExpr(value)


def star() -> StarExpr:
    """Refer to all columns."""
    return StarExpr()


def unnest(expr: Expr) -> UnnestExpr:
    """Expand the fields of a column of structs into columns; for `with_columns`."""
    if not isinstance(expr, Expr):
        raise TypeError(f"unnest() takes an expression such as col('s'), got {expr!r}")
    return UnnestExpr(expr)


__all__ = [
    "AliasExpr", "BinaryExpr", "ColumnExpr", "DownloadExpr", "Expr", "FunctionExpr", "LiteralExpr",
    "MonotonicallyIncreasingIdExpr", "Operation", "RandomExpr", "StarExpr", "UDFExpr", "UUIDExpr", "UnaryExpr", "UnnestExpr",
    "_ArrayNamespace", "_DatetimeNamespace", "_ListNamespace", "_MapNamespace", "_StringNamespace", "_StructNamespace", "col",
    "download", "lit", "monotonically_increasing_id", "pyarrow_udf", "random", "star", "udf", "unnest", "uuid",
]  # fmt: skip
