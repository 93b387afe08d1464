"""Writing datasets to databases, table formats and queues."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from skate.data.catalog import CatalogAccessMode, ReaderFormat, resolved
from skate.data.checkpoint import Checkpoint, check_source, skipping
from skate.data.compute import Compute
from skate.data.dataset.base import DatasetBase
from skate.data.exceptions import omit_traceback_stdout
from skate.data.plan.operators import Read, Write
from skate.data.source import systems
from skate.data.source.datasink import SaveMode, WriteResult
from skate.data.steps.write import results_of

Options = dict[str, Any] | None


class SystemWriting(DatasetBase):
    """Methods that write datasets to databases, table formats and queues, and the common part of all writes."""

    @omit_traceback_stdout
    def _write(self, datasink: Any, remote_args: Options, concurrency: int | None) -> None:
        """Run the plan into a datasink, and report its start and its end or failure to the datasink."""
        if concurrency is not None and concurrency < 1:
            raise ValueError(f"concurrency must be >= 1, got {concurrency}")
        plan = self._plan
        checkpoint = None
        if self._context.checkpoint_config is not None:
            checkpoint = Checkpoint(self._context.checkpoint_config)
            checkpoint.check(datasink)
            check_source(plan)
        _start(datasink, self._schema_beforehand(datasink))
        if getattr(datasink, "nothing_to_write", False):
            return
        if checkpoint is not None:
            checkpoint.begin(datasink)
            plan = skipping(plan, checkpoint)  # only now: until `begin`, tasks of an earlier run may add ids
        compute = Compute(tasks=concurrency, remote_args=dict(remote_args or {}))
        written = self._with(Write((plan,), datasink=datasink, compute=compute, checkpoint=checkpoint))
        result: WriteResult[Any] = WriteResult()
        try:
            for value, rows, size in results_of(written._tables()):
                result.num_rows += rows
                result.size_bytes += size
                result.write_returns.append(value)
            datasink.on_write_complete(result)
            if checkpoint is not None:
                checkpoint.forget()
        except Exception as error:
            # Any error of an earlier step or of the datasink: report it, then let it propagate
            if checkpoint is None:  # otherwise keep the written rows; the next run continues after them
                datasink.on_write_failed(error)
            raise
        finally:
            self._last_run = written._last_run

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Any],
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Insert rows into a database with a DB-API 2 driver: `sql` is an INSERT with a placeholder for each column."""
        self._write(systems.sql.SQLDatasink(sql, connection_factory), ray_remote_args, concurrency)

    def write_mongo(
        self,
        uri: str,
        database: str,
        collection: str,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Insert rows into a MongoDB collection, as documents; needs pymongo."""
        self._write(systems.mongo.MongoDatasink(uri, database, collection), ray_remote_args, concurrency)

    def write_delta(
        self,
        path: str,
        *,
        catalog: Any = None,
        mode: SaveMode = SaveMode.APPEND,
        partition_by: list[str] | None = None,
        storage_options: dict[str, str] | None = None,
        schema_mode: str = "merge",
        filesystem: Any = None,
        name: str | None = None,
        description: str | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to a Delta table, which is created if it does not exist; all rows appear in one commit. Needs
        deltalake.

        Columns that the table lacks are added to it, unless `schema_mode` is "error".
        """
        if catalog is not None:
            found = resolved("write_delta", catalog, path, ReaderFormat.DELTA, CatalogAccessMode.WRITE)
            path, storage_options = (
                found.path or path,
                {**(storage_options or {}), **(found.storage_options or {})},
            )
        about = {
            key: value for key, value in (("name", name), ("description", description)) if value is not None
        }
        make = systems.delta.DeltaDatasink
        sink = make(str(path), mode, partition_by, storage_options, filesystem, about, schema_mode)
        self._write(sink, ray_remote_args, concurrency)

    def write_iceberg(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, Any] | None = None,
        catalog: Any = None,
        snapshot_properties: dict[str, str] | None = None,
        mode: SaveMode = SaveMode.APPEND,
        overwrite_filter: Any = None,
        upsert_kwargs: dict[str, Any] | None = None,
        overwrite_kwargs: dict[str, Any] | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to an existing Iceberg table; all rows appear in one commit. Needs pyiceberg.

        Columns that the table lacks are added to it; types become wider if necessary.

        Args:
            mode: APPEND; OVERWRITE to replace the rows for which `overwrite_filter` is true, or all; UPSERT to
                replace the rows with the same values in the columns `join_cols`.
            overwrite_filter: an expression of `ray.data.expressions`, or a filter of pyiceberg.
            upsert_kwargs: `join_cols` (else the table's identifier fields), `case_sensitive`, `branch`.
            overwrite_kwargs: `case_sensitive`, `branch`.
        """
        if catalog is not None:
            found = resolved(
                "write_iceberg", catalog, table_identifier, ReaderFormat.ICEBERG, CatalogAccessMode.WRITE
            )
            table_identifier = found.table_identifier or table_identifier
            catalog_kwargs = {**(found.catalog_kwargs or {}), **(catalog_kwargs or {})}
        sink = systems.iceberg_writer.IcebergDatasink(
            table_identifier,
            catalog_kwargs,
            mode,
            overwrite_filter,
            snapshot_properties,
            upsert_kwargs,
            overwrite_kwargs,
        )
        self._write(sink, ray_remote_args, concurrency)

    def write_lance(
        self,
        path: str,
        *,
        schema: Any = None,
        mode: SaveMode = SaveMode.CREATE,
        min_rows_per_file: int = 1 << 20,
        max_rows_per_file: int = 64 << 20,
        data_storage_version: str | None = None,
        storage_options: dict[str, str] | None = None,
        table_id: list[str] | None = None,
        namespace_impl: str | None = None,
        namespace_properties: dict[str, str] | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to a Lance dataset: "create" a new one, "append" or "overwrite"; all rows appear at once. Needs pylance."""
        if table_id or namespace_impl or namespace_properties:
            raise NotImplementedError("namespaces of Lance are not supported; write to the dataset's path")
        options = {
            "min_rows_per_file": min_rows_per_file,
            "max_rows_per_file": max_rows_per_file,
            "data_storage_version": data_storage_version,
        }
        sink = systems.lance.LanceDatasink(str(path), mode, schema, storage_options, options)
        self._write(sink, ray_remote_args, concurrency)

    def write_bigquery(
        self,
        project_id: str,
        dataset: str,
        max_retry_cnt: int = 10,
        overwrite_table: bool = True,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Load rows into a BigQuery table, `dataset` being "dataset.table"; needs google-cloud-bigquery."""
        sink = systems.warehouses.BigQueryDatasink(project_id, dataset, max_retry_cnt, overwrite_table)
        self._write(sink, ray_remote_args, concurrency)

    def write_clickhouse(
        self,
        table: str,
        dsn: str,
        *,
        mode: Any = None,
        schema: Any = None,
        client_settings: dict[str, Any] | None = None,
        client_kwargs: dict[str, Any] | None = None,
        table_settings: Any = None,
        max_insert_block_rows: int | None = None,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Insert rows into a ClickHouse table; needs clickhouse-connect.

        Args:
            mode: a `SinkMode`: CREATE makes the table and fails if it exists, OVERWRITE replaces it, APPEND
                creates it if needed.
            schema: the columns of a new table, if they are not known before the dataset runs.
            table_settings: a `ClickHouseTableSettings` for a new table.
            max_insert_block_rows: the most rows per insert.
        """
        client = {"settings": client_settings or {}, **(client_kwargs or {})}
        mode = systems.clickhouse.SinkMode.CREATE if mode is None else mode
        make = systems.clickhouse.ClickHouseDatasink
        sink = make(table, dsn, client, max_insert_block_rows, mode, schema, table_settings)
        self._write(sink, ray_remote_args, concurrency)

    def write_snowflake(
        self,
        table: str,
        connection_parameters: dict[str, Any],
        *,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Insert rows into a Snowflake table; needs snowflake-connector-python."""
        sink = systems.snowflake.SnowflakeDatasink(table, connection_parameters)
        self._write(sink, ray_remote_args, concurrency)

    def write_kafka(
        self,
        topic: str,
        bootstrap_servers: str,
        key_field: str | None = None,
        key_serializer: str = "string",
        value_serializer: str = "json",
        producer_config: dict[str, Any] | None = None,
        *,
        ray_remote_args: Options = None,
        concurrency: int | None = None,
    ) -> None:
        """Send rows to a Kafka topic, one message per row; needs confluent-kafka."""
        config = {"bootstrap.servers": bootstrap_servers, **(producer_config or {})}
        sink = systems.kafka.KafkaDatasink(topic, config, key_field, key_serializer, value_serializer)
        self._write(sink, ray_remote_args, concurrency)

    def write_turbopuffer(self, **options: Any) -> None:
        """Not supported: raises NotImplementedError with the alternative."""
        raise NotImplementedError(
            "write_turbopuffer is not supported; write with turbopuffer's client in a function of map_batches"
        )

    def _schema_beforehand(self, datasink: Any) -> pa.Schema | None:
        """Return the schema of the rows to write, if it is known without running anything or the datasink needs it."""
        if getattr(datasink, "needs_schema", False):
            whole: Any = self
            schema = whole.schema()
            return None if schema is None else schema.base_schema
        plan = self._plan
        known = getattr(plan.datasource, "known_schema", None) if isinstance(plan, Read) else None
        found: pa.Schema | None = known() if known is not None else None
        return found


def _start(datasink: Any, schema: pa.Schema | None) -> None:
    """Report the start to a datasink; older datasinks take no schema."""
    start = datasink.on_write_start
    if inspect.signature(start).parameters:
        start(schema)
    else:
        start()
