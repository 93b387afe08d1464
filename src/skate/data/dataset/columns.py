"""Columns by name and by expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skate.data import block as blocks
from skate.data.block import columns, names
from skate.data.compute import ActorPoolStrategy, requested
from skate.data.dataset.base import DatasetBase
from skate.data.expressions.functions import UDFExpr
from skate.data.expressions.pandas_rules import by_rules_of_pandas
from skate.data.expressions.projection import StarExpr, UnnestExpr, columns_needed
from skate.data.expressions.tree import ColumnExpr, Expr
from skate.data.plan import knowledge
from skate.data.plan import operators as logical
from skate.data.plan.names import known_names
from skate.data.steps.udf import Udf

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

_FORMATS = ("pandas", "pyarrow", "numpy")


class Columns(DatasetBase):
    """Columns by name and by expression.

    If the plan knows its column names, an unknown one raises at once; otherwise when the plan runs.
    """

    def add_column(
        self,
        col: str,
        fn: Callable[..., Any],
        *,
        batch_format: str | None = "pandas",
        compute: Any = None,
        concurrency: Any = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Add a column computed by a function of each block: a DataFrame ("pandas"), a dict of arrays
        ("numpy") or a Table ("pyarrow").

        The function returns an array, a Series, a list or one value for all rows. A column of that name is replaced. See
        `with_column` for expressions, which need no function.
        """
        if not isinstance(col, str):
            raise ValueError(f"the name of a column must be a string, got {col!r}")
        if not callable(fn):
            raise ValueError(f"`fn` must be callable, got {fn!r:.80}; pass a function of a batch")
        if batch_format not in _FORMATS:
            raise ValueError(f"batch_format argument must be on of {list(_FORMATS)}, got: {batch_format}")
        udf = Udf(AddColumn(col, fn, batch_format))
        how = requested(None, compute, concurrency, ray_remote_args)
        return self._with(logical.MapBatches((self._plan,), udf, None, "pyarrow", True, True, how))

    def drop_columns(
        self,
        cols: str | Sequence[str],
        *,
        compute: Any = None,
        concurrency: Any = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Drop columns. Raises ValueError for names given twice, KeyError for unknown ones."""
        dropped = _unique("drop_columns expects unique column names, got", cols)
        present = known_names(self._plan)
        missing = [name for name in dropped if name not in (dropped if present is None else present)]
        if missing:
            raise names.UnknownColumn(
                f"drop_columns: column(s) not found in dataset schema: {missing}. Available columns: {present}"
            )
        if not dropped:
            return self._with(self._plan)
        return self._projected(compute, concurrency, ray_remote_args, keep=True, drop=dropped)

    def select_columns(
        self,
        cols: str | Sequence[str],
        *,
        compute: Any = None,
        concurrency: Any = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Select columns, in the order given. Raises ValueError for names given twice, KeyError for unknown ones."""
        chosen = _unique("select_columns expected unique column names, got duplicate column names", cols)
        self._check(chosen)
        return self._projected(
            compute, concurrency, ray_remote_args, columns=tuple((name, ColumnExpr(name)) for name in chosen)
        )

    def rename_columns(
        self, names: Mapping[str, str] | Sequence[str], *, concurrency: Any = None, **ray_remote_args: Any
    ) -> Dataset:
        """Rename columns: with a dict of old to new names, or a list of new names for all.

        Raises ValueError if a new name belongs to a column that is not renamed itself.
        """
        if isinstance(names, Mapping):
            _check_new_names(names, list(names.values()))
            pairs = list(names.items())
        elif isinstance(names, (list, tuple)):
            _check_new_names(names, names)
            pairs = list(self._all_renamed(names))
        else:
            raise TypeError(
                f"rename_columns expected names to be either List[str] or Dict[str, str], got {type(names)}: {names!r:.80}"
            )
        self._check([old for old, _ in pairs])
        old_names = {old for old, _ in pairs}
        taken = [new for _, new in pairs if new in (known_names(self._plan) or ()) and new not in old_names]
        if taken:
            raise ValueError(
                f"the column {taken[0]!r} already exists, so no other can be renamed to it; rename or "
                "drop it first"
            )
        return self._projected(None, concurrency, ray_remote_args, renames=tuple(pairs))

    def _all_renamed(self, new: Sequence[str]) -> list[tuple[str, str]]:
        present = known_names(self._plan)
        if present is None:
            everything: Any = self
            present = everything.columns() or []
        if len(present) != len(new):
            raise ValueError(
                f"rename_columns requires 'names': {list(new)} length match current schema names: "
                f"{list(present)}; use a dict to rename only some columns"
            )
        return list(zip(present, new, strict=True))

    def with_column(
        self, column_name: str, expr: Expr, *, compute: Any = None, **ray_remote_args: Any
    ) -> Dataset:
        """Add a column computed by an expression, or replace the one of that name."""
        return self.with_columns({column_name: expr}, compute=compute, **ray_remote_args)

    def with_columns(
        self,
        exprs: Mapping[str, Expr] | UnnestExpr | None = None,
        *more_exprs: Mapping[str, Expr] | UnnestExpr,
        compute: Any = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Add columns computed by expressions: dicts of name to expression, and `unnest(...)` for the fields
        of structs.

        All expressions see the columns as they were before.
        """
        made: dict[str, Any] = {}
        for given in (exprs, *more_exprs):
            if given is None:
                continue
            if isinstance(given, UnnestExpr):
                made[f"*{len(made)}"] = given
                continue
            if not isinstance(given, Mapping):
                raise TypeError(
                    f"`with_columns` arguments must be mappings from column name to expression, or unnest(...), "
                    f"got {type(given).__name__}: {given!r:.80}"
                )
            for name, expression in given.items():
                made[_checked(name, expression)] = expression
        if not made:
            return self._with(self._plan)
        present = known_names(self._plan)
        if present is not None:
            for expression in made.values():
                for needed in columns_needed(expression) or ():
                    names.known(present, needed)
        return self._projected(compute, None, ray_remote_args, keep=True, columns=tuple(made.items()))

    def _check(self, requested: Sequence[str]) -> None:
        present = known_names(self._plan)
        if present is not None:
            for name in requested:
                names.known(present, name)

    def _projected(self, compute: Any, concurrency: Any, remote_args: dict[str, Any], **what: Any) -> Dataset:
        fn = None
        if knowledge.native_format(self._plan) == "pandas" and "columns" in what:
            what["columns"] = tuple((name, by_rules_of_pandas(each)) for name, each in what["columns"])
        if isinstance(compute, ActorPoolStrategy):
            fn = next(filter(None, (_class_of(each) for _, each in what.get("columns", ()))), Expr)
        how = requested(fn, compute, concurrency, remote_args)
        return self._with(logical.Project((self._plan,), compute=how, **what))


class AddColumn:
    """The step of `add_column`: set a function's result as a column and keep the others."""

    __name__ = "add_column"

    def __init__(self, name: str, fn: Callable[..., Any], batch_format: str | None) -> None:
        self.name = name
        self.fn = fn
        self.batch_format = batch_format

    def __call__(self, table: pa.Table) -> pa.Table:
        made = self.fn(blocks.to_batch(table, self.batch_format, for_function=True))
        column = self._column(made, table.num_rows)
        if len(column) != table.num_rows:
            raise ValueError(
                f"the function of add_column({self.name!r}) returned {len(column)} values for {table.num_rows} rows; "
                f"it must return one per row"
            )
        if self.name in table.column_names:
            return table.set_column(table.column_names.index(self.name), self.name, column)
        return table.append_column(self.name, column)

    def _column(self, made: Any, rows: int) -> Any:
        if isinstance(made, (pa.Array, pa.ChunkedArray)):
            return made
        if hasattr(made, "iloc"):
            return columns.from_series(made)
        if isinstance(made, (list, tuple)):
            return columns.from_values(made)
        if hasattr(made, "__array__") and np.ndim(made):
            return columns.from_array(columns.as_ndarray(made))
        return columns.from_values([made] * rows)


def _class_of(expression: Expr) -> type | None:
    """Return the user's class that an expression calls, if any; such an expression runs in actors."""
    for each in expression.walk():
        if isinstance(each, UDFExpr) and each.of_users and each.udf.is_class:
            kind: type = each.udf.kind
            return kind
    return None


def _check_new_names(names: Mapping[str, str] | Sequence[str], new: Sequence[str]) -> None:
    """Raise ValueError unless there are new names, each a string and different from the others."""
    if not new:
        if isinstance(names, Mapping):
            raise ValueError(
                "rename_columns received 'names' with no entries; pass a dict of old to new names"
            )
        raise ValueError(
            "rename_columns requires 'names' with at least one column name; pass one for each column"
        )
    if len(set(new)) < len(new):
        raise ValueError(f"rename_columns received duplicate values in the 'names': {names}")
    for each in (*names, *new):
        if not isinstance(each, str):
            which = "both keys and values" if isinstance(names, Mapping) else "all elements"
            raise ValueError(f"rename_columns requires {which} in the 'names' to be strings, got {each!r}")


def _unique(word: str, given: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        given = [given]
    if isinstance(given, (bytes, Mapping)) or not hasattr(given, "__iter__"):
        raise TypeError(
            f"{word.split()[0]} requires 'cols' to be a string or a list of strings, got {given!r}"
        )
    found = tuple(given)
    for name in found:
        if not isinstance(name, str):
            raise ValueError(
                f"{word.split()[0]} requires all elements of 'cols' to be strings, got {name!r}; see with_column()"
            )
    if len(set(found)) < len(found):
        raise ValueError(f"{word}: {list(found)}")
    return found


def _checked(name: Any, expression: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a column must be a string, got {name!r}")
    if not isinstance(expression, Expr):
        raise TypeError(
            f"the column {name!r} is given by {expression!r:.80}, which is not an expression; use lit(...) "
            "for one value, or add_column() for a function"
        )
    if isinstance(expression, (StarExpr, UnnestExpr)):
        raise TypeError(f"{expression!r} yields several columns, but {name!r} is a single one")
    return name
