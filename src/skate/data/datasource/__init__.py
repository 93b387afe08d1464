"""Interfaces for custom datasources and datasinks: base classes, and how files are found, partitioned and named."""

from __future__ import annotations

from skate.data.source.datasink import Datasink as Datasink
from skate.data.source.datasink import DummyOutputDatasink as DummyOutputDatasink
from skate.data.source.datasink import SaveMode as SaveMode
from skate.data.source.datasink import WriteResult as WriteResult
from skate.data.source.datasink import WriteReturnType as WriteReturnType
from skate.data.source.datasource import Datasource as Datasource
from skate.data.source.datasource import Reader as Reader
from skate.data.source.datasource import ReadTask as ReadTask
from skate.data.source.files.file_list import BaseFileMetadataProvider as BaseFileMetadataProvider
from skate.data.source.files.file_list import DefaultFileMetadataProvider as DefaultFileMetadataProvider
from skate.data.source.files.file_list import FileMetadataProvider as FileMetadataProvider
from skate.data.source.files.filename_provider import FilenameProvider as FilenameProvider
from skate.data.source.files.path_partitions import Partitioning as Partitioning
from skate.data.source.files.path_partitions import PartitionStyle as PartitionStyle
from skate.data.source.files.path_partitions import PathPartitionFilter as PathPartitionFilter
from skate.data.source.files.path_partitions import PathPartitionParser as PathPartitionParser
from skate.data.source.files.sink import BlockBasedFileDatasink as BlockBasedFileDatasink
from skate.data.source.files.sink import RowBasedFileDatasink as RowBasedFileDatasink
from skate.data.source.files.source import FileBasedDatasource as FileBasedDatasource
from skate.data.source.files.source import FileShuffleConfig as FileShuffleConfig
from skate.data.source.formats.recordings import MCAPDatasource as MCAPDatasource
from skate.data.source.formats.recordings import TimeRange as TimeRange
from skate.data.source.random_rows import RandomIntRowDatasource as RandomIntRowDatasource
from skate.data.source.systems.sql import Connection as Connection
