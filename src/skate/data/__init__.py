"""Data: datasets that stream through functions of rows and batches, within a memory budget.

Public names are loaded on first use: `import skate.data` alone imports no table library.
"""

from __future__ import annotations

from typing import Any

from skate import lazy_loader

#: Public names, by the module that defines them.
# fmt: off
_HOMES = {
    "skate.data.catalog": (
        "Catalog", "CatalogAccessMode", "DatabricksUnityCatalog", "ReaderFormat", "ResolvedSource",
    ),
    "skate.data.compute": ("ActorPoolStrategy", "ComputeStrategy", "TaskPoolStrategy"),
    "skate.data.context": (
        "DataContext", "DatasetContext", "ExecutionOptions", "ExecutionResources", "MixStoppingCondition", "NodeIdStr",
        "RandomSeedConfig",
    ),
    "skate.data.dataset": ("Dataset", "MaterializedDataset"),
    "skate.data.dataset.schema": ("Schema",),
    "skate.data.dataset.summary": ("DatasetSummary",),
    "skate.data.execution.stats_summary": ("list_stats_summaries",),
    "skate.data.iteration.iterator": ("DataIterator", "DatasetIterator"),
    "skate.data.readers.frames": (
        "from_arrow", "from_arrow_refs", "from_blocks", "from_daft", "from_dask", "from_huggingface", "from_mars", "from_modin",
        "from_numpy", "from_numpy_refs", "from_pandas", "from_pandas_refs", "from_spark", "from_tf", "from_torch",
        "range_tensor", "read_datasource",
    ),
    "skate.data.readers.media": (
        "read_binary_files", "read_images", "read_numpy", "read_text", "read_tfrecords", "read_webdataset",
    ),
    "skate.data.preprocessor": ("Preprocessor",),
    "skate.data.readers.memory": ("range", "from_items"),
    "skate.data.readers.recordings": ("read_audio", "read_lerobot", "read_mcap", "read_videos", "read_zarr"),
    "skate.data.readers.systems": (
        "read_clickhouse", "read_databricks_tables", "read_delta", "read_delta_sharing_tables", "read_hudi", "read_iceberg",
        "read_kafka", "read_lance", "read_mongo", "read_snowflake", "read_sql", "read_unity_catalog",
    ),
    "skate.data.readers.tables": ("read_avro", "read_csv", "read_json", "read_orc", "read_parquet"),
    "skate.data.source.datasink": ("Datasink", "SaveMode"),
    "skate.data.source.datasource": ("Datasource", "ReadTask"),
    "skate.data.source.systems.clickhouse": ("ClickHouseTableSettings", "SinkMode"),
    "skate.data.source.systems.kafka": ("KafkaAuthConfig",),
    "skate.data.source.files.sink": ("BlockBasedFileDatasink", "RowBasedFileDatasink"),
    "skate.data.source.files.source": ("FileShuffleConfig",),
}
# fmt: on

#: Submodules that are available once the package is imported, such as `ray.data.datasource`.
_MODULES = frozenset(
    {"aggregate", "block", "constants", "context", "dataset", "datasource", "datatype", "exceptions", "expressions",
     "grouped_data", "iterator", "preprocessor", "preprocessors", "read_api", "stats"}
)  # fmt: skip

_load, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES, _MODULES)


def __getattr__(name: str) -> Any:
    if name.startswith("read_") and name in __all__:
        preload_workers()
    return _load(name)


def preload_workers() -> None:
    """Preload the imports of datasets in workers, while this process imports them too. Called before files are read."""
    from skate.util.debug import preload  # nothing of the engine is loaded with this package

    preload("skate.data.execution.preload")
