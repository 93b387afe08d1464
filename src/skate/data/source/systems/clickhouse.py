"""ClickHouse: queries as Arrow streams, rows inserted by tasks."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skate.data.block import from_batch
from skate.data.block.objects import refuse_pickles
from skate.data.source.datasink import Datasink, TaskContext
from skate.data.source.datasource import Datasource
from skate.data.source.systems.warehouses import Calls
from skate.installed import require


class ClickHouseQuery:
    """Reads a ClickHouse query as an Arrow stream."""

    def __init__(self, dsn: str, query: str, client: dict[str, Any]) -> None:
        self.given = (dsn, query, client)

    def __call__(self) -> Iterator[pa.Table]:
        dsn, query, options = self.given
        client = require("clickhouse_connect", "read_clickhouse", "clickhouse-connect").get_client(
            dsn=dsn, **options
        )
        try:
            with client.query_arrow_stream(query) as stream:
                for part in stream:
                    yield refuse_pickles(from_batch(part), "the answer of ClickHouse")
        finally:
            client.close()


def clickhouse_source(
    table: str, dsn: str, columns: Any, wanted: str | None, order_by: Any, client: dict[str, Any]
) -> Datasource:
    """Build a datasource that reads a ClickHouse table in one task."""
    require("clickhouse_connect", "read_clickhouse", "clickhouse-connect")
    query = f"SELECT {', '.join(columns) if columns else '*'} FROM {table}"
    if wanted:
        query += f" WHERE {wanted}"
    if order_by:
        names, descending = order_by
        query += f" ORDER BY {', '.join(names)}{' DESC' if descending else ''}"
    return Calls("ClickHouse", [ClickHouseQuery(dsn, query, client)])


class SinkMode(enum.IntEnum):
    """How to write to a table: create it, append to it, or replace it."""

    CREATE = 1
    APPEND = 2
    OVERWRITE = 3


@dataclass
class ClickHouseTableSettings:
    """Settings of a new table: clauses of CREATE TABLE, without their keywords."""

    engine: str = "MergeTree()"
    order_by: str | None = None
    partition_by: str | None = None
    primary_key: str | None = None
    settings: str | None = None


class ClickHouseDatasink(Datasink[None]):
    """Inserts rows into a ClickHouse table, which `mode` may create from a schema."""

    def __init__(
        self,
        table: str,
        dsn: str,
        client: dict[str, Any],
        block_rows: int | None,
        mode: SinkMode = SinkMode.APPEND,
        schema: pa.Schema | None = None,
        settings: ClickHouseTableSettings | None = None,
    ) -> None:
        require("clickhouse_connect", "write_clickhouse", "clickhouse-connect")
        self._given = (table, dsn, client, block_rows)
        self._mode = mode
        self._schema = schema
        self._settings = settings or ClickHouseTableSettings()

    def get_name(self) -> str:
        return "ClickHouse"

    def _client(self) -> Any:
        _, dsn, options, _ = self._given
        found = require("clickhouse_connect", "write_clickhouse", "clickhouse-connect")
        return found.get_client(dsn=dsn, **options)

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        schema = self._schema if self._schema is not None else schema
        if schema is None:
            if self._mode is not SinkMode.APPEND:
                raise ValueError(
                    f"write_clickhouse with mode={self._mode.name} creates a table, but the columns are unknown "
                    "until the dataset runs; pass schema=, a pyarrow schema"
                )
            return
        table = self._given[0]
        client = self._client()
        try:
            exists = str(client.command(f"EXISTS TABLE {table}")).strip() == "1"
            if exists and self._mode is SinkMode.CREATE:
                raise ValueError(f"the table {table} already exists; use mode=SinkMode.APPEND or OVERWRITE")
            if exists and self._mode is SinkMode.OVERWRITE:
                client.command(f"DROP TABLE {table}")
            if not exists or self._mode is SinkMode.OVERWRITE:
                client.command(create_statement(table, schema, self._settings))
        finally:
            client.close()

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        table, _, _, rows = self._given
        client = self._client()
        try:
            for block in blocks:
                for at in range(0, block.num_rows, rows or max(1, block.num_rows)):
                    client.insert_arrow(table, block.slice(at, rows or block.num_rows))
        finally:
            client.close()


def create_statement(table: str, schema: pa.Schema, settings: ClickHouseTableSettings) -> str:
    """Return the CREATE TABLE statement for a schema. Raises TypeError for types without a ClickHouse equivalent."""
    columns = ", ".join(f"`{field.name}` {_type_of(field.type, field.nullable)}" for field in schema)
    clauses = [f"CREATE TABLE {table} ({columns}) ENGINE = {settings.engine}"]
    if settings.partition_by:
        clauses.append(f"PARTITION BY {settings.partition_by}")
    if settings.primary_key:
        clauses.append(f"PRIMARY KEY ({settings.primary_key})")
    if settings.order_by or not settings.primary_key:
        clauses.append(f"ORDER BY {settings.order_by or 'tuple()'}")
    if settings.settings:
        clauses.append(f"SETTINGS {settings.settings}")
    return " ".join(clauses)


_TYPES = {
    pa.bool_(): "Bool", pa.int8(): "Int8", pa.int16(): "Int16", pa.int32(): "Int32", pa.int64(): "Int64",
    pa.uint8(): "UInt8", pa.uint16(): "UInt16", pa.uint32(): "UInt32", pa.uint64(): "UInt64", pa.float32(): "Float32",
    pa.float64(): "Float64", pa.string(): "String", pa.large_string(): "String", pa.binary(): "String",
    pa.large_binary(): "String", pa.date32(): "Date32",
}  # fmt: skip


def _type_of(kind: pa.DataType, nullable: bool = True) -> str:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"Array({_type_of(kind.value_type, False)})"
    found = _TYPES.get(kind)
    if pa.types.is_timestamp(kind):
        digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
        found = f"DateTime64({digits})" if kind.tz is None else f"DateTime64({digits}, '{kind.tz}')"
    if pa.types.is_decimal(kind):
        found = f"Decimal({kind.precision}, {kind.scale})"
    if found is None:
        raise TypeError(f"ClickHouse has no type for {kind}; cast the column, or create the table yourself")
    return f"Nullable({found})" if nullable else found
