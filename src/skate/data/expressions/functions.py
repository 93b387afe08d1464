"""User-defined functions in expressions: `udf` and `pyarrow_udf`."""

from __future__ import annotations

import asyncio
import functools
import inspect
from abc import ABCMeta
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns
from skate.data.datatype import DataType
from skate.data.expressions.tree import Expr, FunctionExpr, LiteralExpr
from skate.data.steps.place import Place
from skate.data.steps.udf import Udf


class UDFExpr(Expr, metaclass=ABCMeta):
    """A function over whole columns of a block: a user's, or (as a virtual subclass) one of Arrow."""

    _own = ("udf", "keywords", "data_type")
    of_users = True
    kind_of_expression = "UDF"

    def __init__(self, data_type: DataType, fn: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.udf = fn if isinstance(fn, Udf) else Udf(fn)
        self.data_type = data_type
        self.keywords = tuple(kwargs)
        given = (*args, *kwargs.values())
        self.children = tuple(each if isinstance(each, Expr) else LiteralExpr(each) for each in given)

    @property
    def fn(self) -> Any:
        """The function, or the class whose instances are called."""
        return self.udf.kind

    @property
    def args(self) -> list[Expr]:
        """The arguments given by position."""
        return list(self.children[: len(self.children) - len(self.keywords)])

    @property
    def kwargs(self) -> dict[str, Expr]:
        """The arguments given by name."""
        return dict(zip(self.keywords, self.children[len(self.children) - len(self.keywords) :], strict=True))

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        values = [_given(child, table, place) for child in self.children]
        named = len(self.keywords)
        plain, keywords = (values[:-named], values[-named:]) if named else (values, [])
        made = self.udf.load()(*plain, **dict(zip(self.keywords, keywords, strict=True)))
        if inspect.isawaitable(made):
            made = _awaited(made)
        found = self._column(made)
        if not isinstance(found, pa.Scalar) and len(found) != table.num_rows:
            raise ValueError(
                f"{self!r} returned {len(found)} values for a block of {table.num_rows} rows; it must return one per row"
            )
        return found

    def _column(self, made: Any) -> Any:
        if isinstance(made, (pa.Array, pa.ChunkedArray, pa.Scalar)):
            return made
        if isinstance(made, np.ndarray) and made.ndim:
            return columns.from_array(made)
        if isinstance(made, (list, tuple)):
            return columns.from_values(made)
        if hasattr(made, "__arrow_array__") or type(made).__module__.startswith("pandas"):
            return columns.from_series(made)
        if hasattr(made, "__array__") and np.ndim(made):
            return columns.from_array(np.asarray(made))
        raise TypeError(
            f"{self!r} returned invalid type {type(made).__name__}, {made!r:.80}. Expected type: pyarrow.Array, "
            "pyarrow.ChunkedArray, numpy.ndarray, pandas.Series or list, with one value per row"
        )

    def get_type(self, input_schema: pa.Schema) -> pa.DataType | None:
        return self.data_type.to_arrow_dtype() if not self.data_type.is_python_type() else None

    def __repr__(self) -> str:
        first = len(self.children) - len(self.keywords)
        shown = [repr(each.value if isinstance(each, LiteralExpr) else each) for each in self.children]
        named = [f"{name}={text}" for name, text in zip(self.keywords, shown[first:], strict=True)]
        return f"{self.udf.name}({', '.join([*shown[:first], *named])})"


UDFExpr.register(FunctionExpr)


def _awaited(made: Any) -> Any:
    """Run a coroutine on a new event loop and return its result."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(made)
    finally:
        loop.close()


def _given(child: Expr, table: pa.Table, place: Place | None) -> Any:
    """Return the function's argument for a child: a literal unchanged, a column as a ChunkedArray."""
    if isinstance(child, LiteralExpr):
        return child.value
    found = child.evaluate(table, place)
    return found.as_py() if isinstance(found, pa.Scalar) else found


def udf(return_dtype: DataType) -> Callable[[Any], Callable[..., Any]]:
    """Decorate a function of columns for use in expressions.

    The function gets Arrow's ChunkedArrays and returns a column: an Arrow array, a numpy array or a pandas Series,
    with one value per row. A class is constructed once in each process, and its instances are called.
    """
    if callable(return_dtype) and not isinstance(return_dtype, (DataType, type)):
        raise TypeError("udf() needs the return type: @udf(return_dtype=DataType.int64())")
    kind = DataType.from_dtype(return_dtype)
    if kind is None:
        raise TypeError(f"return_dtype must be a DataType such as DataType.int64(), got {return_dtype!r}")

    def decorate(fn: Any) -> Callable[..., Any]:
        if isinstance(fn, type):

            def construct(*args: Any, **kwargs: Any) -> Callable[..., UDFExpr]:
                return _expressions(Udf(fn, (), {}, args, kwargs), kind)

            return functools.wraps(fn, updated=())(construct)
        return functools.wraps(fn)(_expressions(Udf(fn), kind))

    return decorate


pyarrow_udf = udf


def _expressions(function: Udf, kind: DataType) -> Callable[..., UDFExpr]:
    def make(*args: Any, **kwargs: Any) -> UDFExpr:
        return UDFExpr(kind, function, args, kwargs)

    return make
