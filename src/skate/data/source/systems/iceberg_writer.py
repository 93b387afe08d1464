"""Writing Iceberg tables, through pyiceberg: tasks write data files, and its catalog takes them in one commit."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skate.data.block import concat
from skate.data.expressions.operations import Operation
from skate.data.expressions.tree import AliasExpr, BinaryExpr, ColumnExpr, Expr, LiteralExpr, UnaryExpr
from skate.data.source.datasink import Datasink, SaveMode, TaskContext, WriteResult
from skate.data.source.systems.iceberg import table_of
from skate.installed import require

_WHAT = "write_iceberg"
_COMPARISONS = {
    Operation.EQ: ("EqualTo", "EqualTo"),
    Operation.NE: ("NotEqualTo", "NotEqualTo"),
    Operation.LT: ("LessThan", "GreaterThan"),
    Operation.LE: ("LessThanOrEqual", "GreaterThanOrEqual"),
    Operation.GT: ("GreaterThan", "LessThan"),
    Operation.GE: ("GreaterThanOrEqual", "LessThanOrEqual"),
}
_MEMBERSHIPS = {Operation.IN: "In", Operation.NOT_IN: "NotIn"}
_TESTS = {Operation.IS_NULL: "IsNull", Operation.IS_NOT_NULL: "NotNull"}
_OPTIONS = {
    SaveMode.UPSERT: ("join_cols", "case_sensitive", "branch"),
    SaveMode.OVERWRITE: ("case_sensitive", "branch"),
}


def condition_of(expr: Expr) -> Any:
    """Return a condition as one of pyiceberg. Raises ValueError if Iceberg has no equivalent."""
    module = require("pyiceberg.expressions", _WHAT, "pyiceberg")
    if isinstance(expr, AliasExpr):
        return condition_of(expr.children[0])
    if isinstance(expr, UnaryExpr):
        (operand,) = expr.children
        if expr.op is Operation.NOT:
            return module.Not(condition_of(operand))
        if expr.op in _TESTS and isinstance(operand, ColumnExpr):
            return getattr(module, _TESTS[expr.op])(operand.name)
    if isinstance(expr, BinaryExpr):
        left, right = expr.children
        if expr.op in (Operation.AND, Operation.OR):
            kind = module.And if expr.op is Operation.AND else module.Or
            return kind(condition_of(left), condition_of(right))
        if isinstance(left, ColumnExpr) and isinstance(right, LiteralExpr):
            if expr.op in _MEMBERSHIPS:
                return getattr(module, _MEMBERSHIPS[expr.op])(left.name, right.value)
            if expr.op in _COMPARISONS:
                return getattr(module, _COMPARISONS[expr.op][0])(left.name, right.value)
        if isinstance(left, LiteralExpr) and isinstance(right, ColumnExpr) and expr.op in _COMPARISONS:
            return getattr(module, _COMPARISONS[expr.op][1])(right.name, left.value)
    raise ValueError(
        f"{expr!r} cannot be a filter of an Iceberg table: use comparisons of a column with a value, is_in(), is_null() "
        "and their combinations by &, | and ~"
    )


class IcebergDatasink(Datasink[Any]):
    """Writes rows into an Iceberg table: tasks write data files, and a single commit at the end adds them to the
    table. Columns that the table lacks are added to it first.
    """

    #: The table gets new columns before any task writes.
    needs_schema = True

    def __init__(
        self,
        identifier: str,
        catalog_kwargs: dict[str, Any] | None = None,
        mode: SaveMode = SaveMode.APPEND,
        overwrite_filter: Any = None,
        snapshot_properties: dict[str, str] | None = None,
        upsert_kwargs: Mapping[str, Any] | None = None,
        overwrite_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.mode = SaveMode(mode)
        if self.mode not in (SaveMode.APPEND, SaveMode.OVERWRITE, SaveMode.UPSERT):
            raise NotImplementedError(
                f"write_iceberg supports the modes 'append', 'overwrite' and 'upsert', got {self.mode.value!r}"
            )
        for name, given, wanted in (
            ("upsert_kwargs", upsert_kwargs or None, SaveMode.UPSERT),
            ("overwrite_kwargs", overwrite_kwargs or None, SaveMode.OVERWRITE),
            ("overwrite_filter", overwrite_filter, SaveMode.OVERWRITE),
        ):
            if given is not None and self.mode is not wanted:
                raise ValueError(
                    f"{name} can only be specified when mode is {wanted}, but mode is {self.mode}"
                )
        self._options = dict(upsert_kwargs or overwrite_kwargs or {})
        unknown = sorted(set(self._options) - set(_OPTIONS.get(self.mode, ())))
        if unknown:
            raise ValueError(
                f"unknown options {unknown} of mode {self.mode.value!r}; there are {', '.join(_OPTIONS[self.mode])}"
            )
        self._identifier = identifier
        self._catalog = catalog_kwargs
        self._filter = (
            condition_of(overwrite_filter) if isinstance(overwrite_filter, Expr) else overwrite_filter
        )
        self._properties = snapshot_properties or {}
        self._keys: list[str] = []
        table = table_of(identifier, catalog_kwargs, _WHAT)
        self._metadata, self._io = table.metadata, table.io

    def get_name(self) -> str:
        return "Iceberg"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        table = table_of(self._identifier, self._catalog, _WHAT)
        if schema is not None:
            known = [field for field in schema if not pa.types.is_null(field.type)]
            with table.update_schema() as update:
                update.union_by_name(pa.schema(known))
        self._metadata = table.metadata
        if self.mode is SaveMode.UPSERT:
            self._keys = self._join_columns(table)

    def _join_columns(self, table: Any) -> list[str]:
        schema = table.schema()
        named = self._options.get("join_cols")
        given = list(named or sorted(schema.identifier_field_names()))
        if not given:
            raise ValueError(
                "join_cols must be specified in upsert_kwargs for UPSERT mode when the table has no identifier fields"
            )
        names = {name: name for name in schema.column_names}
        if not self._options.get("case_sensitive", True):
            names = {name.lower(): name for name in schema.column_names}
            given = [name.lower() for name in given]
        missing = [name for name in given if name not in names]
        if missing:
            raise ValueError(
                f"the join columns {missing} are not in {self._identifier}; its columns are {', '.join(schema.column_names)}"
            )
        return [names[name] for name in given]

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> Any:
        """Write data files; return them, and the keys of their rows for an upsert."""
        module = require("pyiceberg.io.pyarrow", _WHAT, "pyiceberg")
        table = concat(blocks)
        if not table.num_rows:
            return [], None
        schema = module.schema_to_pyarrow(self._metadata.schema())
        missing = [name for name in table.column_names if name not in schema.names]
        if missing:
            raise ValueError(
                f"{self._identifier} has no columns {missing}; its columns are {', '.join(schema.names)}"
            )
        made = pa.table(
            [
                table.column(field.name).cast(field.type)
                if field.name in table.column_names
                else pa.nulls(table.num_rows, field.type)
                for field in schema
            ],
            schema=schema,
        )
        files = list(module._dataframe_to_data_files(self._metadata, made, self._io))
        return files, made.select(self._keys) if self._keys else None

    def on_write_complete(self, write_result: WriteResult[Any]) -> None:
        table = table_of(self._identifier, self._catalog, _WHAT)
        branch = self._options.get("branch", "main")
        with table.transaction() as transaction:
            replaced = self._replaced(write_result)
            if replaced is not None and table.current_snapshot() is not None:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="Delete operation did not match any records")
                    sensitive = self._options.get("case_sensitive", True)
                    transaction.delete(replaced, case_sensitive=sensitive, branch=branch)
            snapshot = transaction.update_snapshot(snapshot_properties=self._properties, branch=branch)
            with snapshot.fast_append() as append:
                for files, _ in write_result.write_returns:
                    for file in files:
                        append.append_data_file(file)

    def _replaced(self, write_result: WriteResult[Any]) -> Any:
        """Return the condition of the rows that the new ones replace, or None."""
        if self.mode is SaveMode.OVERWRITE:
            every = require("pyiceberg.expressions", _WHAT, "pyiceberg").AlwaysTrue()
            return every if self._filter is None else self._filter
        found = [keys for _, keys in write_result.write_returns if keys is not None]
        if self.mode is not SaveMode.UPSERT or not found:
            return None
        keys = pa.concat_tables(found).group_by(self._keys).aggregate([])
        for name in self._keys:  # a null equals no key
            keys = keys.filter(pc.is_valid(keys.column(name)))
        if not keys.num_rows:
            return None
        module = require("pyiceberg.table.upsert_util", _WHAT, "pyiceberg")
        return module.create_match_filter(keys, self._keys)
