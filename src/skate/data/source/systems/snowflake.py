"""Snowflake, through its connector, which is a DB-API driver."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from skate.data.block.table import to_pandas
from skate.data.source.datasink import Datasink, TaskContext
from skate.installed import require

_PACKAGE = "snowflake-connector-python"


class Connect:
    """Opens a connection."""

    def __init__(self, parameters: dict[str, Any], what: str) -> None:
        require("snowflake.connector", what, _PACKAGE)
        self.given = (parameters, what)

    def __call__(self) -> Any:
        parameters, what = self.given
        return require("snowflake.connector", what, _PACKAGE).connect(**parameters)


class SnowflakeDatasink(Datasink[None]):
    """Inserts rows into an existing table."""

    def __init__(self, table: str, parameters: dict[str, Any]) -> None:
        self._table = table
        self._connect = Connect(parameters, "write_snowflake")

    def get_name(self) -> str:
        return "Snowflake"

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        write = require(
            "snowflake.connector.pandas_tools", "write_snowflake", f"{_PACKAGE}[pandas]"
        ).write_pandas
        connection = self._connect()
        try:
            for table in blocks:
                if table.num_rows:
                    write(connection, to_pandas(table), self._table)
        finally:
            connection.close()
