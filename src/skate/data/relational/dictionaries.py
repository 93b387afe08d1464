"""Distinct texts of Parquet files: a file with a dictionary of its texts need not be read as texts.

A file stores a number for each row, and each text once. Few rows show that all texts of the dictionary occur, and in which
order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skate.data.context import available_cpus
from skate.data.relational.refusals import StageRefused

#: The types whose dictionaries Arrow's reader keeps.
KINDS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
#: The least bytes of a text without a dictionary: those of its length.
_LENGTH = 4
#: How many rows to look at first, and how many times as many next.
_ROWS = 1 << 14
_MORE = 8


def distinct_texts(
    paths: Sequence[str], field: pa.Field, is_wanted: Callable[[], bool]
) -> list[pa.Table] | None:
    """Return tables with all distinct values of a column, in order of their first appearance, some repeatedly.

    Returns None if the files store most values as texts. Raises StageRefused if the result is no longer wanted.
    """
    opened = [(path, pq.read_metadata(path)) for path in paths]
    chunks = [
        (path, metadata, group) for path, metadata in opened for group in range(metadata.num_row_groups)
    ]
    if not chunks or not _are_numbers(opened, field.name):
        return None

    def values(chunk: tuple[str, Any, int]) -> pa.Table:
        if not is_wanted():
            raise StageRefused("the stage was closed")
        path, metadata, group = chunk
        with pq.ParquetFile(path, metadata=metadata, read_dictionary=[field.name]) as file:
            column = file.read_row_group(group, [field.name], use_threads=False).column(0)
        found = pa.chunked_array([_appearing(each).cast(field.type) for each in column.chunks], field.type)
        return pa.table([found], schema=pa.schema([field]))

    with ThreadPoolExecutor(min(len(chunks), available_cpus()), "skate-scan") as pool:
        return list(pool.map(values, chunks))


def _are_numbers(opened: Sequence[tuple[str, Any]], name: str) -> bool:
    """True if a column has fewer bytes in the files than its texts without dictionaries would have."""
    size = values = 0
    for _, metadata in opened:
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                if column.path_in_schema == name:
                    size += column.total_uncompressed_size
                    values += column.num_values
    return 0 < size < _LENGTH * values


def _appearing(array: pa.DictionaryArray) -> pa.Array:
    """Return the distinct values in order of their first appearance."""
    numbers, texts = array.indices, array.dictionary
    wanted = len(texts) + (array.null_count > 0)
    rows = _ROWS
    found = pc.unique(numbers[:rows])
    while len(found) < wanted and rows < len(numbers):
        rows *= _MORE
        found = pc.unique(numbers[:rows])
    return texts.take(found)
