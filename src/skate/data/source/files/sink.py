"""Base classes of datasinks that write files: one or several per task, or one per row."""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from skate.data.block import concat, rows_of
from skate.data.block.accessor import BlockAccessor
from skate.data.context import DataContext
from skate.data.source.datasink import Datasink, SaveMode, TaskContext, WriteResult
from skate.data.source.files import streams
from skate.data.source.files.filename_provider import FilenameProvider
from skate.data.source.files.filesystems import renames, resolve
from skate.data.source.files.output import write_file


class FileDatasink(Datasink[Any]):
    """Writes files into a directory.

    Args:
        path: the directory, as path or URL.
        filesystem: a `pyarrow.fs` or fsspec filesystem; None to derive it from the URL.
        try_create_dir: create the directory if it does not exist.
        open_stream_args: keyword arguments for `open_output_stream`; `compression` is by default derived from
            file names.
        filename_provider: names the files.
        file_format: the extension.
        mode: what to do if the directory exists already.

    Raises ValueError at the start of a write if the directory exists and `mode` is "error" or "create".
    """

    def __init__(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        open_stream_args: dict[str, Any] | None = None,
        filename_provider: FilenameProvider | None = None,
        dataset_uuid: str | None = None,
        file_format: str | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        context = DataContext.get_current()
        self._retried = tuple(context.write_file_retry_on_errors or ()) + tuple(context.retried_io_errors)
        (self.path,), self.filesystem = resolve(path, filesystem)
        self.unresolved_path = path
        self.try_create_dir = try_create_dir
        self.open_stream_args = dict(open_stream_args or {})
        self.own_names = filename_provider is None and dataset_uuid is None  # names begin with the write's id
        self.filename_provider = filename_provider or FilenameProvider(dataset_uuid, file_format)
        self.file_format = file_format
        try:
            self.mode = SaveMode(mode)
        except ValueError:
            names = ", ".join(repr(each.value) for each in SaveMode)
            raise ValueError(f"mode must be one of {names}, not {mode!r}") from None
        self.write_uuid = uuid.uuid4().hex
        self._before: list[str] = []
        self._made: set[str] = set()

    # -- start and end

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        self.write_uuid = uuid.uuid4().hex
        self.nothing_to_write = False
        info = self.filesystem.get_file_info(self.path)
        exists = info.type != pafs.FileType.NotFound
        if exists and self.mode in (SaveMode.ERROR, SaveMode.CREATE):
            raise ValueError(
                f"Path {self.unresolved_path} already exists, and mode={self.mode.value!r} requires a path that "
                "does not exist; use "
                f"mode='append', 'overwrite' or 'ignore', or another path"
            )
        if exists and self.mode is SaveMode.IGNORE:
            self.nothing_to_write = True
            return
        if info.type == pafs.FileType.File:
            raise NotADirectoryError(
                20, "a dataset is written into a directory, but this is a file", self.path
            )
        # Replaced files are deleted once all new ones exist: a write that fails, or reads the files it
        # replaces, loses nothing.
        self._before = self._all_files() if exists and self.mode is SaveMode.OVERWRITE else []

    def make_directory(self, below: str = "") -> str:
        """Return the directory for a file, creating it if necessary: an empty dataset creates none."""
        where = "/".join(part for part in (self.path, below) if part)
        if (self.try_create_dir or below) and where not in self._made and self._has_directories():
            self.filesystem.create_dir(where, recursive=True)
            self._made.add(where)
        return where

    def _has_directories(self) -> bool:
        return renames(self.filesystem) or isinstance(self.filesystem, pafs.PyFileSystem)

    def _all_files(self) -> list[str]:
        selector = pafs.FileSelector(self.path, recursive=True, allow_not_found=True)
        return [
            info.path for info in self.filesystem.get_file_info(selector) if info.type == pafs.FileType.File
        ]

    def on_write_complete(self, write_result: WriteResult[Any]) -> None:
        if self._before:
            written = {path for paths in write_result.write_returns for path in paths or ()}
            for path in self._before:
                if path not in written:
                    self.filesystem.delete_file(path)
            self._before = []

    def on_write_failed(self, error: Exception) -> None:
        """Delete the files that other tasks have written so far; files named by a provider are not known."""
        if not self.own_names:
            return
        with contextlib.suppress(OSError, pa.ArrowException):
            for path in self._all_files():
                if path.rpartition("/")[2].lstrip(".").startswith(self.write_uuid):
                    self.filesystem.delete_file(path)

    # -- in a task

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> list[str]:
        raise NotImplementedError

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Open a file to write to. A subclass that overrides this opens each file itself, under its final name."""
        return self.filesystem.open_output_stream(path, **self.open_stream_args)

    def _put(self, name: str, write: Callable[[Any], None], is_repeatable: bool = False) -> str:
        """Write a file; a function that can be called again is, after transient errors."""
        where = self.make_directory()
        path = f"{where}/{name}" if where else name
        put = functools.partial(self._put_once, path, write)
        if is_repeatable:
            streams.retried(put, self._retried)
        else:
            put()
        return path

    def _put_once(self, path: str, write: Callable[[Any], None]) -> None:
        if type(self).open_output_stream is FileDatasink.open_output_stream:
            write_file(self.filesystem, path, self.open_stream_args, self._retried, write)
            return
        with self.open_output_stream(path) as file:
            write(file)

    def _name_of_block(self, block: Any, ctx: TaskContext, block_index: int) -> str:
        return self.filename_provider.get_filename_for_block(
            block, self.write_uuid, ctx.task_idx, block_index
        )


class BlockBasedFileDatasink(FileDatasink):
    """Writes one file per task. Subclasses define `write_block_to_file(block, file)`, where block is a `BlockAccessor`.

    Args:
        min_rows_per_file: the least number of rows per file, if there are enough.
    """

    def __init__(
        self, path: str, *, min_rows_per_file: int | None = None, **file_datasink_kwargs: Any
    ) -> None:
        super().__init__(path, **file_datasink_kwargs)
        if min_rows_per_file is not None and min_rows_per_file < 1:
            raise ValueError(f"min_rows_per_file must be a positive integer, got {min_rows_per_file}")
        self.min_rows_per_file = min_rows_per_file

    @property
    def min_rows_per_write(self) -> int | None:
        return self.min_rows_per_file

    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        """Write a block to an open file."""
        raise NotImplementedError(f"{type(self).__name__} must define write_block_to_file(block, file)")

    def write_tables(self, tables: Iterable[pa.Table], file: Any) -> None:
        """Write blocks of one schema to an open file; by default combined into one block."""
        self.write_block_to_file(BlockAccessor.for_block(concat(tables)), file)

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> str:
        """Write a block as a file of its own."""
        name = self._name_of_block(block.to_block(), ctx, block_index)
        return self._put(name, functools.partial(self.write_block_to_file, block), True)

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> list[str]:
        written = []
        for index, run in enumerate(runs_of_one_schema(blocks)):
            first = next(run)
            name = self._name_of_block(first, ctx, index)
            if type(self).write_tables is BlockBasedFileDatasink.write_tables:
                whole = BlockAccessor.for_block(concat(chained(first, run)))
                written.append(self._put(name, functools.partial(self.write_block_to_file, whole), True))
            else:
                written.append(self._put(name, functools.partial(self.write_tables, chained(first, run))))
        return written


class RowBasedFileDatasink(FileDatasink):
    """Writes one file per row. Subclasses define `write_row_to_file(row, file)`."""

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        """Write a row to an open file."""
        raise NotImplementedError(f"{type(self).__name__} must define write_row_to_file(row, file)")

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> list[str]:
        """Write each row of a block to a file of its own."""
        written = []
        for number, row in enumerate(block.iter_rows()):
            name = self.filename_provider.get_filename_for_row(
                row, self.write_uuid, ctx.task_idx, block_index, number
            )
            written.append(self._put(name, functools.partial(self.write_row_to_file, row), True))
        return written

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> list[str]:
        written: list[str] = []
        for index, table in enumerate(blocks):
            written += self.write_block(BlockAccessor(table), index, ctx)
        return written


def runs_of_one_schema(blocks: Iterable[pa.Table]) -> Iterator[Iterator[pa.Table]]:
    """Group nonempty blocks into runs of one schema: a block that differs is cast if that is lossless, else
    it begins a new run.

    Each run must be consumed before the next is requested.
    """
    source = (table for table in blocks if table.num_rows)
    waiting = [next(source, None)]

    def run() -> Iterator[pa.Table]:
        first = waiting[0]
        assert first is not None
        schema = first.schema
        waiting[0] = None
        yield first
        for table in source:
            fitting = fitted(table, schema)
            if fitting is None:
                waiting[0] = table
                return
            yield fitting

    while waiting[0] is not None:
        yield run()


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table | None:
    """Cast a table to a schema, or return None if that would lose something."""
    if table.schema.equals(schema):
        return table
    if set(table.column_names) != set(schema.names) or len(table.column_names) != len(schema):
        return None
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError, TypeError):
        return None


def chained(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield a table and those after it."""
    yield first
    yield from rest


def arguments_of(function: Callable[[], dict[str, Any]] | None, given: dict[str, Any]) -> dict[str, Any]:
    """Merge a writer's arguments: those that a function returns on the worker override the given ones."""
    return {**given, **(function() if function is not None else {})}


def rows_in(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of tables."""
    for table in tables:
        yield from rows_of(table)
