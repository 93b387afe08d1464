"""Expressions over columns: `ray.data.expressions`.

tree         an expression as a tree, its operators
operations   what the operators do with Arrow arrays
namespaces/  what can be done with text, lists, structs, maps, dates, numbers
functions    functions of the user's own
generated    columns made from nothing
downloads    the bytes behind URIs
projection   what stands for several columns; which columns an expression needs
parsing      expressions from text such as "id > 3 and name == 'x'"
pushdown     what a reader of Parquet can do itself
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
    """The column of that name."""
    return ColumnExpr(name)


def lit(value: Any) -> LiteralExpr:
    """One value for all rows."""
    return LiteralExpr(value)


def star() -> StarExpr:
    """All columns there are."""
    return StarExpr()


def unnest(expr: Expr) -> UnnestExpr:
    """The fields of a column of structs as columns; for `with_columns`."""
    if not isinstance(expr, Expr):
        raise TypeError(f"unnest() takes an expression such as col('s'), not {expr!r}")
    return UnnestExpr(expr)


__all__ = [
    "AliasExpr", "BinaryExpr", "ColumnExpr", "DownloadExpr", "Expr", "FunctionExpr", "LiteralExpr",
    "MonotonicallyIncreasingIdExpr", "Operation", "RandomExpr", "StarExpr", "UDFExpr", "UUIDExpr", "UnaryExpr", "UnnestExpr",
    "_ArrayNamespace", "_DatetimeNamespace", "_ListNamespace", "_MapNamespace", "_StringNamespace", "_StructNamespace", "col",
    "download", "lit", "monotonically_increasing_id", "pyarrow_udf", "random", "star", "udf", "unnest", "uuid",
]  # fmt: skip
