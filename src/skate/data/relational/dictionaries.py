"""Distinct texts of Parquet files: a file with a dictionary of its texts need not be read as texts.

A file stores a number for each row, and each text once. If all its pages hold numbers, few rows show that all texts of the
dictionary occur, and in which order; the other rows are not read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skate.data.context import available_cpus
from skate.data.relational.refusals import StageRefused
from skate.data.source.formats.parquet_pages import dictionary_size

#: The types whose dictionaries Arrow's reader keeps.
KINDS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
#: The least bytes of a text without a dictionary: those of its length.
_LENGTH = 4
#: How many rows to look at first: at least so many, and so many for each text. The second makes it likely that all occur.
_ROWS = 1 << 14
_ROWS_OF_A_TEXT = 16
#: How many times as many rows to look at next.
_MORE = 8
#: The first rows of up to this many row groups, and so many rows in all, are read sooner than threads start.
_AT_HAND = 16
_ROWS_AT_HAND = 1 << 18


class _Chunk(NamedTuple):
    """The values of a column in a row group."""

    path: str
    footer: Any
    group: int
    column: Any


def distinct_texts(
    paths: Sequence[str], field: pa.Field, is_wanted: Callable[[], bool]
) -> list[pa.Table] | None:
    """Return tables with all distinct values of a column, in order of their first appearance, some repeatedly.

    Returns None if the files store most values as texts. Raises StageRefused if the result is no longer wanted.
    """
    chunks = list(_chunks(paths, field.name))
    if not _are_numbers(chunks):
        return None

    def at_first(chunk: _Chunk) -> pa.Array | None:
        _check(is_wanted)
        return _shown_by_few_rows(chunk, field)

    def at_last(chunk: _Chunk) -> pa.Array:
        _check(is_wanted)
        return _of_all_rows(chunk, field)

    found = _each(at_first, chunks, len(chunks) <= _AT_HAND)
    places = [at for at, values in enumerate(found) if values is None]
    left = [chunks[at] for at in places]
    are_few = sum(chunk.column.num_values for chunk in left) <= _ROWS_AT_HAND
    for at, values in zip(places, _each(at_last, left, are_few), strict=True):
        found[at] = values
    return [pa.table([values], schema=pa.schema([field])) for values in found]


def _check(is_wanted: Callable[[], bool]) -> None:
    if not is_wanted():
        raise StageRefused("the stage was closed")


def _each(function: Callable[[_Chunk], Any], chunks: Sequence[_Chunk], here: bool) -> list[Any]:
    """Return the results of a function, computed here or in threads."""
    if here or not chunks:
        return list(map(function, chunks))
    with ThreadPoolExecutor(min(len(chunks), available_cpus()), "skate-scan") as pool:
        return list(pool.map(function, chunks))


def _chunks(paths: Sequence[str], name: str) -> Iterator[_Chunk]:
    for path in paths:
        footer = pq.read_metadata(path)
        for group in range(footer.num_row_groups):
            rows = footer.row_group(group)
            for column in map(rows.column, range(rows.num_columns)):
                if column.path_in_schema == name:
                    yield _Chunk(path, footer, group, column)


def _are_numbers(chunks: Sequence[_Chunk]) -> bool:
    """True if a column has fewer bytes in the files than its texts without dictionaries would have."""
    size: int = sum(chunk.column.total_uncompressed_size for chunk in chunks)
    values: int = sum(chunk.column.num_values for chunk in chunks)
    return 0 < size < _LENGTH * values


def _shown_by_few_rows(chunk: _Chunk, field: pa.Field) -> pa.Array | None:
    """Return the distinct values of a chunk if its first rows have all of them, otherwise None."""
    nulls = _nulls(chunk.column)
    size = _dictionary_size(chunk)
    if nulls is None or size is None:
        return None
    rows = max(_ROWS, _ROWS_OF_A_TEXT * size)
    if 2 * rows > chunk.column.num_values:
        return None
    with _opened(chunk, field) as file:
        batches = file.iter_batches(rows, row_groups=[chunk.group], columns=[field.name], use_threads=False)
        values = next(batches).column(0)
    numbers = pc.unique(values.indices)
    if len(values.dictionary) != size or len(numbers) < size + (nulls > 0):
        return None
    return values.dictionary.take(numbers).cast(field.type)


def _of_all_rows(chunk: _Chunk, field: pa.Field) -> pa.Array:
    """Return the distinct values of a chunk, some repeatedly."""
    with _opened(chunk, field) as file:
        column = file.read_row_group(chunk.group, [field.name], use_threads=False).column(0)
    found = [_appearing(each).cast(field.type) for each in column.chunks]
    return pa.concat_arrays(found) if found else pa.array([], field.type)


def _opened(chunk: _Chunk, field: pa.Field) -> Any:
    return pq.ParquetFile(chunk.path, metadata=chunk.footer, read_dictionary=[field.name], pre_buffer=False)


def _nulls(column: Any) -> int | None:
    """Return the number of nulls of a chunk; None if it is unknown."""
    known = column.statistics
    return known.null_count if known is not None and known.has_null_count else None


def _dictionary_size(chunk: _Chunk) -> int | None:
    file = os.open(chunk.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return dictionary_size(file, chunk.column)
    finally:
        os.close(file)


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
