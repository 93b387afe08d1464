"""Databases that have a DB-API 2 driver (PEP 249): queries read, rows inserted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block import columns, rows_of
from skate.data.source.datasink import Datasink, TaskContext
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask

_ROWS_AT_ONCE = 8192
#: The approximate number of rows that are worth a separate task.
_ROWS_A_TASK = 50_000
#: A connection as defined by PEP 249.
Connection = Any
Factory = Callable[[], Connection]


class SQLDatasource(Datasource):
    """Reads the rows of a query; with `shard_keys` in several tasks, each of which selects the rows with its hash."""

    def __init__(
        self,
        sql: str,
        connection_factory: Factory,
        sql_params: Any = None,
        shard_keys: Sequence[str] | None = None,
        shard_hash_fn: str = "MD5",
    ) -> None:
        if shard_keys is not None and not shard_keys:
            raise ValueError("shard_keys is empty; name the columns whose values divide the rows among tasks")
        self.sql = sql
        self._connect = connection_factory
        self._params = sql_params
        self._keys = list(shard_keys or ())
        self._hash = shard_hash_fn

    def get_name(self) -> str:
        return "SQL"

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        count = 1
        if self._keys:
            rows = self._counted()
            count = max(1, min(parallelism, -(-rows // _ROWS_A_TASK)))
        queries = [self.sql] if count == 1 else [self._shard(at, count) for at in range(count)]
        return [
            ReadTask(_Query(query, self._connect, self._params), BlockMetadata(), None, per_task_row_limit)
            for query in queries
        ]

    def _counted(self) -> int:
        rows = list(_fetched(f"SELECT COUNT(*) FROM ({self.sql}) AS T", self._connect, self._params))
        return int(rows[0].column(0)[0].as_py())

    def _shard(self, at: int, count: int) -> str:
        key = self._keys[0] if len(self._keys) == 1 else f"CONCAT({','.join(self._keys)})"
        return f"SELECT * FROM ({self.sql}) AS T WHERE MOD(ABS({self._hash}({key})), {count}) = {at}"


class _Query:
    def __init__(self, sql: str, connect: Factory, params: Any) -> None:
        self.given = (sql, connect, params)

    def __call__(self) -> Iterator[pa.Table]:
        return _fetched(*self.given)


def _fetched(sql: str, connect: Factory, params: Any) -> Iterator[pa.Table]:
    """Yield a query's rows in batches."""
    connection = connect()
    try:
        cursor = connection.cursor()
        if params is None:
            cursor.execute(sql)
        else:
            cursor.execute(sql, params)
        names = [each[0] for each in cursor.description]
        given = False
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            given = True
            yield pa.table(
                {name: columns.from_values([row[at] for row in rows]) for at, name in enumerate(names)}
            )
        if not given:
            yield pa.table({name: pa.nulls(0) for name in names})
    finally:
        connection.close()


class SQLDatasink(Datasink[None]):
    """Inserts rows with a statement that has a placeholder for each column; a task's rows are committed together."""

    def __init__(self, sql: str, connection_factory: Factory) -> None:
        self.sql = sql
        self._connect = connection_factory

    def get_name(self) -> str:
        return "SQL"

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        connection = self._connect()
        try:
            cursor = connection.cursor()
            for table in blocks:
                for at in range(0, table.num_rows, _ROWS_AT_ONCE):
                    values = [tuple(row.values()) for row in rows_of(table.slice(at, _ROWS_AT_ONCE))]
                    cursor.executemany(self.sql, values)
            connection.commit()
        except BaseException:  # Ctrl-C as well: a task's rows are inserted completely or not at all
            connection.rollback()
            raise
        finally:
            connection.close()
