"""Expressions as trees: computations on the columns of a block."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block.names import known
from skate.data.datatype import DataType
from skate.data.expressions import operations
from skate.data.expressions.likeness import alike
from skate.data.expressions.namespaces.dates import DatetimeNamespace
from skate.data.expressions.namespaces.lists import ArrayNamespace, ListNamespace
from skate.data.expressions.namespaces.maps import MapNamespace
from skate.data.expressions.namespaces.numbers import Mathematics
from skate.data.expressions.namespaces.results import result_type
from skate.data.expressions.namespaces.strings import StringNamespace
from skate.data.expressions.namespaces.structs import StructNamespace
from skate.data.expressions.operations import SYMBOLS, Operation
from skate.data.steps.place import Place

_ANY = DataType(object)


def _operator(operation: Operation, swapped: bool = False) -> Any:
    def operate(self: Expr, other: Any) -> Expr:
        right = other if isinstance(other, Expr) else LiteralExpr(other)
        return BinaryExpr(operation, right, self) if swapped else BinaryExpr(operation, self, right)

    return operate


class Expr(Mathematics):
    """A computation on the columns of a block; operators and methods build larger expressions from it.

    Comparisons return expressions, so use `structurally_equals` to compare two expressions. An expression has
    no truth value:
    combine conditions with `&`, `|` and `~`, each in parentheses.
    """

    children: tuple[Expr, ...] = ()
    data_type: DataType = _ANY
    #: True for a function from the program.
    of_users: ClassVar[bool] = False
    #: The word for this kind of expression in errors.
    kind_of_expression: ClassVar[builtins.str] = "Such"
    #: The attributes that identify an expression, besides its class and children.
    _own: ClassVar[tuple[builtins.str, ...]] = ()

    # -- for subclasses to define

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        """Evaluate for a block: an Arrow array with one value per row, or a scalar for all rows."""
        raise NotImplementedError

    def to_pyarrow(self) -> pc.Expression:
        """Convert to an expression of `pyarrow.dataset`. Raises TypeError if there is no equivalent."""
        raise TypeError(
            f"{self.kind_of_expression} expressions cannot be converted to PyArrow expressions: {self!r} cannot be "
            "computed by pyarrow while it reads"
        )

    @property
    def name(self) -> builtins.str | None:
        """Return the column's name or the alias; None for unnamed expressions."""
        return None

    # -- operators

    __add__ = _operator(Operation.ADD)
    __radd__ = _operator(Operation.ADD, True)
    __sub__ = _operator(Operation.SUB)
    __rsub__ = _operator(Operation.SUB, True)
    __mul__ = _operator(Operation.MUL)
    __rmul__ = _operator(Operation.MUL, True)
    __truediv__ = _operator(Operation.DIV)
    __rtruediv__ = _operator(Operation.DIV, True)
    __floordiv__ = _operator(Operation.FLOORDIV)
    __rfloordiv__ = _operator(Operation.FLOORDIV, True)
    __mod__ = _operator(Operation.MOD)
    __rmod__ = _operator(Operation.MOD, True)
    __gt__ = _operator(Operation.GT)
    __lt__ = _operator(Operation.LT)
    __ge__ = _operator(Operation.GE)
    __le__ = _operator(Operation.LE)
    __eq__ = _operator(Operation.EQ)
    __ne__ = _operator(Operation.NE)
    __and__ = _operator(Operation.AND)
    __rand__ = _operator(Operation.AND, True)
    __or__ = _operator(Operation.OR)
    __ror__ = _operator(Operation.OR, True)

    def __invert__(self) -> Expr:
        return UnaryExpr(Operation.NOT, self)

    def __neg__(self) -> Expr:
        return self.negate()

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError(
            f"the expression {self!r} has a value for each row, not one truth value; combine conditions with &, "
            "| and ~, each in parentheses (not by `and`, `or`, `not`, `in` or a chained comparison)"
        )

    def is_null(self) -> Expr:
        """True where the value is null."""
        return UnaryExpr(Operation.IS_NULL, self)

    def is_not_null(self) -> Expr:
        """True where the value is not null."""
        return UnaryExpr(Operation.IS_NOT_NULL, self)

    def is_in(self, values: Any) -> Expr:
        """True where the value is one of `values`: a sequence, or an expression that stands for its values in
        the block."""
        return BinaryExpr(Operation.IN, self, _sequence(values))

    def not_in(self, values: Any) -> Expr:
        """True where the value is not in `values`."""
        return BinaryExpr(Operation.NOT_IN, self, _sequence(values))

    def alias(self, name: builtins.str) -> Expr:
        """Return the expression under another name."""
        return AliasExpr(self, name)

    # -- namespaces

    @property
    def str(self) -> StringNamespace:
        """Functions of text."""
        return StringNamespace(self)

    @property
    def list(self) -> ListNamespace:
        """Functions of lists."""
        return ListNamespace(self)

    @property
    def arr(self) -> ArrayNamespace:
        """Functions of arrays."""
        return ArrayNamespace(self)

    @property
    def struct(self) -> StructNamespace:
        """Functions of structs."""
        return StructNamespace(self)

    @property
    def map(self) -> MapNamespace:
        """Functions of maps."""
        return MapNamespace(self)

    @property
    def dt(self) -> DatetimeNamespace:
        """Functions of dates and timestamps."""
        return DatetimeNamespace(self)

    # -- about the expression itself

    def walk(self) -> Iterator[Expr]:
        """Yield this expression and all inside it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def rebuilt(self, *children: Expr) -> Expr:
        """Return a copy with other children."""
        made = copy.copy(self)
        made.children = children
        return made

    def structurally_equals(self, other: Any) -> bool:
        """True if another expression has the same structure and values."""
        if type(self) is not type(other) or len(self.children) != len(other.children):
            return False
        if not all(alike(getattr(self, each), getattr(other, each)) for each in self._own):
            return False
        return all(a.structurally_equals(b) for a, b in zip(self.children, other.children, strict=True))

    def is_idempotent(self) -> bool:
        """True if repeated evaluation gives the same result; False with random values in it."""
        return all(child.is_idempotent() for child in self.children)

    def get_type(self, input_schema: pa.Schema) -> pa.DataType | None:
        """Return the Arrow type for blocks with a schema, None if unknown."""
        try:
            return self.evaluate(input_schema.empty_table()).type
        except Exception:  # a user's function may fail for an empty block, and then the type is unknown
            return None

    def nullable(self, input_schema: pa.Schema) -> bool:
        """True if the result may contain nulls."""
        return True

    def to_field(self, input_schema: pa.Schema) -> pa.Field | None:
        """Return the field for blocks with a schema, None without a name or a known type."""
        kind = self.get_type(input_schema)
        if kind is None or self.name is None:
            return None
        return pa.field(self.name, kind, nullable=self.nullable(input_schema))

    def _call(self, title: builtins.str, function: Any, *options: Any, **named: Any) -> Expr:
        return FunctionExpr(self, title, function, options, named)


def _sequence(values: Any) -> Expr:
    if isinstance(values, Expr):
        return values
    if hasattr(values, "to_pylist"):
        values = values.to_pylist()
    elif isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"is_in() and not_in() take a sequence of values or an expression, got {values!r}")
    return LiteralExpr(list(values))


class ColumnExpr(Expr):
    """A reference to a column by name."""

    _own = ("_name",)

    def __init__(self, _name: str) -> None:
        if not isinstance(_name, str):
            raise TypeError(f"col() takes the name of a column, got {_name!r}")
        self._name = _name

    @property
    def name(self) -> str:
        return self._name

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        return table.column(known(table.column_names, self._name))

    def nullable(self, input_schema: pa.Schema) -> bool:
        field = self.to_field(input_schema)
        return field is None or field.nullable

    def to_field(self, input_schema: pa.Schema) -> pa.Field | None:
        return input_schema.field(self._name) if self._name in input_schema.names else None

    def to_pyarrow(self) -> pc.Expression:
        return pc.field(self._name)

    def __repr__(self) -> str:
        return f"col({self._name!r})"


class DottedExpr(Expr):
    """A dotted name in an expression given as text: the column of that name, or else a struct field."""

    _own = ("_name",)

    def __init__(self, name: str, field: Expr) -> None:
        self._name = name
        self.children = (field,)

    @property
    def name(self) -> str:
        return self._name

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        if self._name in table.column_names:
            return table.column(self._name)
        return self.children[0].evaluate(table, place)

    def __repr__(self) -> str:
        return f"col({self._name!r})"


class LiteralExpr(Expr):
    """One value for all rows."""

    _own = ("value",)

    def __init__(self, value: Any) -> None:
        if isinstance(value, Expr):
            raise TypeError(f"lit() takes a value, got the expression {value!r}")
        self.value = value

    @property
    def data_type(self) -> DataType:  # type: ignore[override]
        return DataType.infer_dtype(self.value)

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        value = self.value
        return pa.scalar(value.tolist() if isinstance(value, np.ndarray) else value)

    def nullable(self, input_schema: pa.Schema) -> bool:
        return self.value is None

    def to_pyarrow(self) -> pc.Expression:
        return pc.scalar(self.value)

    def __repr__(self) -> str:
        return f"lit({self.value!r})"


class BinaryExpr(Expr):
    """Two expressions joined by an operator."""

    _own = ("op",)

    def __init__(self, op: Operation, left: Expr, right: Expr) -> None:
        self.op = op
        self.children = (left, right)

    @property
    def left(self) -> Expr:
        """The first operand."""
        return self.children[0]

    @property
    def right(self) -> Expr:
        """The second operand."""
        return self.children[1]

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        left, right = (child.evaluate(table, place) for child in self.children)
        if self.op in (Operation.IN, Operation.NOT_IN):
            found = operations.contained(left, right)
            return found if self.op is Operation.IN else pc.invert(found)
        return operations.binary(self.op, left, right)

    def to_pyarrow(self) -> pc.Expression:
        left = self.left.to_pyarrow()
        if self.op in (Operation.IN, Operation.NOT_IN):
            if not isinstance(self.right, LiteralExpr):
                raise TypeError(
                    f"{self!r} looks up values of the block, which pyarrow cannot do while it reads"
                )
            found = left.isin(self.right.value)
            return found if self.op is Operation.IN else ~found
        return operations.as_pyarrow(self.op, left, self.right.to_pyarrow(), self._is_text)

    def nullable(self, input_schema: pa.Schema) -> bool:
        return self.left.nullable(input_schema) or self.right.nullable(input_schema)

    @property
    def _is_text(self) -> bool:
        return any(isinstance(each, LiteralExpr) and isinstance(each.value, str) for each in self.children)

    def __repr__(self) -> str:
        if self.op in (Operation.IN, Operation.NOT_IN):
            among = self.right.value if isinstance(self.right, LiteralExpr) else self.right
            return f"{_inside(self.left, 9)}.{'is_in' if self.op is Operation.IN else 'not_in'}({among!r})"
        symbol, strength = SYMBOLS[self.op]
        # otherwise Python itself would evaluate it
        if all(isinstance(child, LiteralExpr) for child in self.children):
            return f"{self.left!r} {symbol} {_inside(self.right, strength + 1)}"
        # Comparisons do not chain, and the right operand of - and / must keep its parentheses.
        return (
            f"{_inside(self.left, strength + (strength == 2))} {symbol} {_inside(self.right, strength + 1)}"
        )


class UnaryExpr(Expr):
    """An operator over one expression."""

    _own = ("op",)
    data_type = DataType(pa.bool_())

    def __init__(self, op: Operation, operand: Expr) -> None:
        self.op = op
        self.children = (operand,)

    @property
    def operand(self) -> Expr:
        """The operand of the operator."""
        return self.children[0]

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        return operations.unary(self.op, self.operand.evaluate(table, place))

    def nullable(self, input_schema: pa.Schema) -> bool:
        return self.op is Operation.NOT and self.operand.nullable(input_schema)

    def to_pyarrow(self) -> pc.Expression:
        return operations.unary(self.op, self.operand.to_pyarrow())

    def __repr__(self) -> str:
        if self.op is Operation.NOT:
            return f"~{_inside(self.operand, 8)}"
        return f"{_inside(self.operand, 9)}.{self.op.value}()"


def _inside(part: Expr, strength: int) -> str:
    """Format a part inside another expression: in parentheses if it binds more weakly than its surroundings."""
    text = repr(part.value) if isinstance(part, LiteralExpr) and strength < 9 else repr(part)
    own = SYMBOLS[part.op][1] if isinstance(part, BinaryExpr) and part.op in SYMBOLS else 9
    if isinstance(part, UnaryExpr) and part.op is Operation.NOT:
        own = 8
    return f"({text})" if own < strength else text


class AliasExpr(Expr):
    """An expression under a name."""

    _own = ("_name",)

    def __init__(self, expr: Expr, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"alias() takes a name, got {name!r}")
        self.children = (expr,)
        self._name = name

    @property
    def expr(self) -> Expr:
        """The expression that the alias names."""
        return self.children[0]

    @property
    def data_type(self) -> DataType:  # type: ignore[override]
        return self.expr.data_type

    @property
    def name(self) -> str:
        return self._name

    def alias(self, name: str) -> Expr:
        return AliasExpr(self.expr, name)

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        return self.expr.evaluate(table, place)

    def nullable(self, input_schema: pa.Schema) -> bool:
        return self.expr.nullable(input_schema)

    def to_pyarrow(self) -> pc.Expression:
        return self.expr.to_pyarrow()

    def __repr__(self) -> str:
        return f"{_inside(self.expr, 9)}.alias({self._name!r})"


class FunctionExpr(Expr):
    """A function of Arrow, or of Skate over Arrow arrays, with options.

    `function` is the name of a function of `pyarrow.compute` or a function of a module: both are pickled by name.
    """

    kind_of_expression = "UDF"

    _own = ("title", "function", "options", "named")

    @property
    def data_type(self) -> DataType:  # type: ignore[override]
        return result_type(self.title)

    def __init__(
        self, operand: Expr, title: str, function: Any, options: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.children = (operand, *(each for each in options if isinstance(each, Expr)))
        self.options = tuple(_SLOT if isinstance(each, Expr) else each for each in options)
        self.title = title
        self.function = function
        self.named = named

    def evaluate(self, table: pa.Table, place: Place | None = None) -> Any:
        operand, *others = (child.evaluate(table, place) for child in self.children)
        if pa.types.is_dictionary(operand.type):
            operand = operand.cast(operand.type.value_type)
        return self._apply(operand, others)

    def _apply(self, operand: Any, others: list[Any]) -> Any:
        following = iter(others)
        options = [next(following) if each is _SLOT else each for each in self.options]
        call = getattr(pc, self.function) if isinstance(self.function, str) else self.function
        return call(operand, *options, **self.named)

    def to_pyarrow(self) -> pc.Expression:
        if not isinstance(self.function, str):
            return super().to_pyarrow()
        operand, *others = (child.to_pyarrow() for child in self.children)
        return self._apply(operand, others)

    def __repr__(self) -> str:
        following = iter(self.children[1:])
        given = [repr(next(following) if each is _SLOT else each) for each in self.options]
        given += [f"{name}={value!r}" for name, value in self.named.items()]
        return f"{_inside(self.children[0], 9)}.{self.title}({', '.join(given)})"


class _Slot:
    """Placeholder of a child among the options."""

    def __reduce__(self) -> str:
        return "_SLOT"


_SLOT = _Slot()
