"""Interfaces for custom datasources and datasinks: base classes, and how files are found, partitioned and named."""

from __future__ import annotations

from skate import lazy_loader

_HOMES = {
    "skate.data.source.datasink": ("Datasink", "DummyOutputDatasink", "SaveMode", "WriteResult", "WriteReturnType"),
    "skate.data.source.datasource": ("Datasource", "ReadTask", "Reader"),
    "skate.data.source.files.file_list": (
        "BaseFileMetadataProvider", "DefaultFileMetadataProvider", "FileMetadataProvider",
    ),
    "skate.data.source.files.filename_provider": ("FilenameProvider",),
    "skate.data.source.files.path_partitions": (
        "PartitionStyle", "PathPartitionFilter", "PathPartitionParser", "Partitioning",
    ),
    "skate.data.source.files.sink": ("BlockBasedFileDatasink", "RowBasedFileDatasink"),
    "skate.data.source.files.source": ("FileBasedDatasource", "FileShuffleConfig"),
    "skate.data.source.formats.recordings": ("MCAPDatasource", "TimeRange"),
    "skate.data.source.random_rows": ("RandomIntRowDatasource",),
    "skate.data.source.systems.sql": ("Connection",),
}  # fmt: skip

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
