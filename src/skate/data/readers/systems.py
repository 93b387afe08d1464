"""Datasets of databases, table formats and queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.data.catalog import Credentials, DatabricksUnityCatalog, ReaderFormat, resolved
from skate.data.dataset import Dataset
from skate.data.readers.read_options import Shuffle, dataset_of
from skate.data.readers.tables import read_parquet
from skate.data.source import systems


def read_sql(
    sql: str,
    connection_factory: Callable[[], Any],
    *,
    sql_params: Any = None,
    shard_keys: list[str] | None = None,
    shard_hash_fn: str = "MD5",
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read the rows of a query of any database with a DB-API 2 driver.

    Args:
        sql: the query.
        connection_factory: opens a connection; called in each task.
        sql_params: the values of the query's placeholders.
        shard_keys: columns whose hash divides the rows among tasks; without them one task reads all rows.
        shard_hash_fn: a database function that returns an integer for the keys.
    """
    given = dict(locals())
    source = systems.sql.SQLDatasource(sql, connection_factory, sql_params, shard_keys, shard_hash_fn)
    return dataset_of(source, given)


def read_mongo(
    uri: str,
    database: str,
    collection: str,
    *,
    pipeline: list[dict[str, Any]] | None = None,
    schema: Any = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **mongo_args: Any,
) -> Dataset:
    """Read the documents of a MongoDB collection; needs pymongo.

    Args:
        uri, database, collection: the location of the documents.
        pipeline: stages of an aggregation; one that only matches and projects is run by several tasks.
        schema: the columns and their types; by default inferred from the documents.
        mongo_args: keyword arguments for `pymongo.MongoClient`.
    """
    given = dict(locals())
    return dataset_of(
        systems.mongo.MongoDatasource(uri, database, collection, pipeline, schema, **mongo_args), given
    )


def read_delta(
    path: str,
    version: int | str | None = None,
    *,
    storage_options: dict[str, str] | None = None,
    filesystem: Any = None,
    catalog: Any = None,
    columns: list[str] | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    shuffle: Shuffle = None,
    include_paths: bool = False,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    **arrow_parquet_args: Any,
) -> Dataset:
    """Read the rows of a Delta table, in its latest or a given version; needs deltalake.

    `arrow_parquet_args` may have filter, a pyarrow expression.
    """
    given = dict(locals())
    if catalog is not None:
        found = resolved("read_delta", catalog, path, ReaderFormat.DELTA)
        path, storage_options = (
            found.path or path,
            {**(storage_options or {}), **(found.storage_options or {})},
        )
    source = systems.delta.delta_source(
        str(path), version, storage_options, columns, include_paths, arrow_parquet_args.get("filter"), shuffle
    )
    return dataset_of(source, given)


def read_iceberg(
    *,
    table_identifier: str,
    row_filter: Any = None,
    parallelism: int = -1,
    selected_fields: tuple[str, ...] = ("*",),
    snapshot_id: int | None = None,
    scan_kwargs: dict[str, Any] | None = None,
    catalog_kwargs: dict[str, Any] | None = None,
    catalog: Any = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read an Iceberg table; needs pyiceberg.

    Args:
        table_identifier: "namespace.table".
        row_filter, selected_fields, snapshot_id, scan_kwargs: for pyiceberg's `Table.scan`.
        catalog_kwargs: for pyiceberg's `load_catalog`: name, type, uri and so on.
    """
    given = dict(locals())
    if catalog is not None:
        found = resolved("read_iceberg", catalog, table_identifier, ReaderFormat.ICEBERG)
        table_identifier = found.table_identifier or table_identifier
        catalog_kwargs = {**(found.catalog_kwargs or {}), **(catalog_kwargs or {})}
    scan = {
        "row_filter": row_filter,
        "selected_fields": selected_fields,
        "snapshot_id": snapshot_id,
        **(scan_kwargs or {}),
    }
    return dataset_of(systems.iceberg.IcebergDatasource(table_identifier, catalog_kwargs, **scan), given)


def read_lance(
    uri: str,
    *,
    version: int | str | None = None,
    columns: list[str] | None = None,
    filter: str | None = None,
    storage_options: dict[str, str] | None = None,
    scanner_options: dict[str, Any] | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read a Lance dataset; needs pylance.

    `filter` is SQL, and `scanner_options` are for `LanceDataset.scanner`.
    """
    given = dict(locals())
    source = systems.lance.LanceDatasource(
        str(uri), version, columns, filter, storage_options, scanner_options
    )
    return dataset_of(source, given)


def read_clickhouse(
    *,
    table: str,
    dsn: str,
    columns: list[str] | None = None,
    filter: str | None = None,
    order_by: tuple[list[str], bool] | None = None,
    client_settings: dict[str, Any] | None = None,
    client_kwargs: dict[str, Any] | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read a ClickHouse table in one task; needs clickhouse-connect.

    `filter` is SQL; `order_by` holds the columns, and True for descending order.
    """
    given = dict(locals())
    client = {"settings": client_settings or {}, **(client_kwargs or {})}
    return dataset_of(
        systems.clickhouse.clickhouse_source(table, dsn, columns, filter, order_by, client), given
    )


def read_snowflake(
    sql: str,
    connection_parameters: dict[str, Any],
    *,
    shard_keys: list[str] | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read the rows of a Snowflake query; needs snowflake-connector-python. See `read_sql`."""
    given = dict(locals())
    connect = systems.snowflake.Connect(connection_parameters, "read_snowflake")
    return dataset_of(systems.sql.SQLDatasource(sql, connect, None, shard_keys, "HASH"), given)


def read_databricks_tables(
    *,
    warehouse_id: str,
    table: str | None = None,
    query: str | None = None,
    catalog: str | None = None,
    schema: str | None = None,
    credential_provider: Credentials | None = None,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Run a query in a Databricks SQL warehouse, and read the files of its answer.

    Args:
        warehouse_id: the warehouse that runs the query.
        table: the table to read.
        query: the query, instead of a table.
        catalog, schema: where names in the query are looked up; by default where the warehouse does.
        credential_provider: has `get_host()`, `get_token()` and `invalidate()`; by default the environment variables
            DATABRICKS_HOST and DATABRICKS_TOKEN are used.

    Raises ValueError unless there is either a table or a query, and RuntimeError if the query fails.
    """
    given = dict(locals())
    if query is not None and table is not None:
        raise ValueError("Only one of 'query' and 'table' arguments can be set.")
    if not table and query is None:
        raise ValueError("One of 'query' and 'table' arguments should be set.")
    credentials = credential_provider or systems.databricks.EnvironmentCredentials()
    statement = {
        "statement": f"select * from {table}" if table else query,
        "warehouse_id": warehouse_id,
        **{name: value for name, value in (("catalog", catalog), ("schema", schema)) if value},
    }
    return dataset_of(systems.databricks.DatabricksDatasource(statement, credentials), given)


def read_delta_sharing_tables(
    url: str,
    *,
    limit: int | None = None,
    version: int | None = None,
    timestamp: str | None = None,
    json_predicate_hints: str | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read a table of a Delta share in one task; needs delta-sharing."""
    given = dict(locals())
    options = {
        "limit": limit,
        "version": version,
        "timestamp": timestamp,
        "jsonPredicateHints": json_predicate_hints,
    }
    return dataset_of(systems.warehouses.delta_sharing_source(url, options), given)


def read_hudi(
    table_uri: str,
    *,
    query_type: str = "snapshot",
    filters: list[tuple[str, str, str]] | None = None,
    hudi_options: dict[str, str] | None = None,
    storage_options: dict[str, str] | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read the latest rows of a Hudi table; needs hudi."""
    given = dict(locals())
    options = {**(hudi_options or {}), **(storage_options or {})}
    return dataset_of(systems.warehouses.hudi_source(table_uri, query_type, filters, options), given)


def read_kafka(
    topics: str | list[str],
    *,
    bootstrap_servers: str | list[str],
    trigger: str = "once",
    start_offset: Any = "earliest",
    end_offset: Any = "latest",
    kafka_auth_config: Any = None,
    consumer_config: dict[str, Any] | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    override_num_blocks: int | None = None,
    timeout_ms: int | None = None,
    label_selector: dict[str, str] | None = None,
    fallback_strategy: list[dict[str, Any]] | None = None,
    max_calls: int | None = None,
    resources: dict[str, float] | None = None,
    accelerator_type: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    ray_remote_args: dict[str, Any] | None = None,
) -> Dataset:
    """Read the messages of topics between two offsets, one task per partition; needs confluent-kafka.

    `start_offset` and `end_offset` are numbers, times (datetime) or "earliest" and "latest"; `kafka_auth_config` is a
    KafkaAuthConfig, and `consumer_config` is passed to the consumer unchanged.
    """
    given = dict(locals())
    if trigger != "once":
        raise ValueError(f"trigger must be 'once', got {trigger!r}")
    config = systems.kafka.settings(bootstrap_servers, kafka_auth_config, consumer_config)
    names = [topics] if isinstance(topics, str) else list(topics)
    source = systems.kafka.KafkaDatasource(names, config, start_offset, end_offset, timeout_ms)
    return dataset_of(source, given)


def read_unity_catalog(
    table: str,
    url: str | None = None,
    token: str | None = None,
    *,
    credential_provider: Credentials | None = None,
    data_format: str | None = None,
    region: str | None = None,
    reader_kwargs: dict[str, Any] | None = None,
) -> Dataset:
    """Read a table of Databricks' Unity Catalog; see `DatabricksUnityCatalog`.

    `data_format` is "delta", "parquet" or "iceberg", by default the format in the catalog; `reader_kwargs` goes
    to its reader. Raises ValueError for a table of another kind.
    """
    catalog = DatabricksUnityCatalog(
        url=url, token=token, credential_provider=credential_provider, region=region
    )
    kind = ReaderFormat(data_format) if data_format else catalog.infer_format(table)
    options = dict(reader_kwargs or {})
    if kind is ReaderFormat.DELTA:
        return read_delta(table, catalog=catalog, **options)
    if kind is ReaderFormat.ICEBERG:
        return read_iceberg(table_identifier=table, catalog=catalog, **options)
    if kind is ReaderFormat.PARQUET:
        return read_parquet(table, catalog=catalog, **options)
    raise ValueError(
        f"{table} is not a Delta, Parquet or Iceberg table according to the catalog; set data_format="
    )
