"""Blocks, the pieces of a dataset: a *block* is a `pyarrow.Table`, and only this folder knows how blocks are built
and read.

tensors     columns of arrays, all of one shape or each of its own
objects     columns of Python objects that Arrow has no type for
columns     one column from Python values or from an array, and back
table       blocks from rows and batches, rows and batches from blocks, joining blocks end to end
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from skate.data.block.accessor import Block as Block
from skate.data.block.accessor import BlockAccessor as BlockAccessor
from skate.data.block.accessor import BlockType as BlockType
from skate.data.block.column_accessor import BlockColumnAccessor as BlockColumnAccessor
from skate.data.block.metadata import BlockExecStats as BlockExecStats
from skate.data.block.metadata import BlockMetadata as BlockMetadata
from skate.data.block.metadata import BlockMetadataWithSchema as BlockMetadataWithSchema
from skate.data.block.metadata import BlockStats as BlockStats
from skate.data.block.metadata import TaskExecWorkerStats as TaskExecWorkerStats
from skate.data.block.metadata import to_stats as to_stats
from skate.data.block.table import Batch as Batch
from skate.data.block.table import compact as compact
from skate.data.block.table import concat as concat
from skate.data.block.table import from_batch as from_batch
from skate.data.block.table import from_rows as from_rows
from skate.data.block.table import rows_of as rows_of
from skate.data.block.table import size_of as size_of
from skate.data.block.table import to_batch as to_batch

#: The function argument of a dataset operation: a function, a generator function, or a class with callable instances.
UserDefinedFunction = Callable[[Any], Any] | Callable[[Any], Iterator[Any]] | type

#: Types of rows, of keys of groups, of states and of results of aggregations.
T = TypeVar("T", contravariant=True)
U = TypeVar("U", covariant=True)
KeyType = TypeVar("KeyType")
AggType = TypeVar("AggType")

#: The columns of a block, a column of one, and a column of a batch.
Schema = pa.Schema
BlockColumn = pa.ChunkedArray | pa.Array
BatchColumn = DataBatchColumn = Any

#: A batch of rows: a pyarrow Table, a DataFrame, or a dict of arrays.
DataBatch = Batch

#: Classes with callable instances.
CallableClass = type


class BatchFormat(str, enum.Enum):
    """The form of a batch."""

    ARROW = "pyarrow"
    PANDAS = "pandas"
    NUMPY = "numpy"
    CUDF = "cudf"


DEFAULT_BATCH_FORMAT = "numpy"
#: The values of `batch_format` besides "default".
VALID_BATCH_FORMATS = ["pandas", "pyarrow", "numpy", "cudf", None]
