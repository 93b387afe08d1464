"""Databases, table formats and queues: each through its vendor's library, imported on use."""

from __future__ import annotations

from skate import lazy_loader

_PARTS = (
    "clickhouse",
    "databricks",
    "delta",
    "fragments",
    "iceberg",
    "iceberg_writer",
    "kafka",
    "lance",
    "mongo",
    "snowflake",
    "sql",
    "warehouses",
)

__getattr__, __dir__, _ = lazy_loader.attach(globals(), {}, _PARTS)
