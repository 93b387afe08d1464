"""Parquet output: block by block into one file per task, optionally with a directory for each value of some columns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from skate.data.block import concat
from skate.data.source.datasink import TaskContext
from skate.data.source.files.output import Output
from skate.data.source.files.path_partitions import NULL_PARTITION
from skate.data.source.files.sink import BlockBasedFileDatasink, arguments_of, fitted

#: The most files of partitions open at once; the least recently written one is closed for another.
_OPEN_MAX = 64
#: Small blocks are combined up to this many bytes, so that row groups are not tiny.
_GATHERED = 32 << 20


class ParquetDatasink(BlockBasedFileDatasink):
    """Writes blocks as Parquet files; `arrow_parquet_args` are those of `pyarrow.parquet.ParquetWriter`, and
    row_group_size."""

    def __init__(
        self,
        path: str,
        *,
        partition_cols: Sequence[str] | None = None,
        arrow_parquet_args_fn: Any = None,
        arrow_parquet_args: dict[str, Any] | None = None,
        max_rows_per_file: int | None = None,
        min_bytes_per_file: int | None = None,
        **files: Any,
    ) -> None:
        super().__init__(path, file_format="parquet", **files)
        if max_rows_per_file is not None and max_rows_per_file < 1:
            raise ValueError(f"max_rows_per_file must be a positive integer, got {max_rows_per_file}")
        least = self.min_rows_per_file
        if least is not None and max_rows_per_file is not None and least > max_rows_per_file:
            raise ValueError(
                f"min_rows_per_file ({least}) cannot be greater than max_rows_per_file ({max_rows_per_file})"
            )
        self.partition_cols = (
            [partition_cols] if isinstance(partition_cols, str) else list(partition_cols or ())
        )
        self.args_fn = arrow_parquet_args_fn
        self.args = dict(arrow_parquet_args or {})
        if self.args.get("partitioning_flavor") is not None and not self.partition_cols:
            raise ValueError("partition_cols must be provided when partitioning_flavor is set.")
        #: "hive" for directories as name=value, None for values alone.
        self.flavor = self.args.pop("partitioning_flavor", "hive")
        if self.flavor not in ("hive", None):
            raise ValueError(f"partitioning_flavor must be 'hive' or None, got {self.flavor!r}")
        self.max_rows_per_file = max_rows_per_file
        self.min_bytes_per_file = min_bytes_per_file

    def get_name(self) -> str:
        return "Parquet"

    @property
    def min_bytes_per_write(self) -> int | None:
        return self.min_bytes_per_file

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> list[str]:
        files = _OpenFiles(self, ctx)
        try:
            for table in gathered(blocks):
                for directory, part in self._parts(table):
                    files.add(directory, part)
            files.close()
        except BaseException:  # Ctrl-C as well: incomplete files must not stay
            files.drop()
            raise
        return files.written

    def _parts(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """Yield each directory with its rows, without the columns that the directory encodes."""
        if not self.partition_cols:
            yield "", table
            return
        for name in self.partition_cols:
            if name not in table.column_names:
                raise ValueError(
                    f"partition_cols has {name!r}, but the columns are {', '.join(table.column_names)}"
                )
        rest = [name for name in table.column_names if name not in self.partition_cols]
        if not rest:
            raise ValueError(
                f"partition_cols names all columns: {self.partition_cols}; a file needs at least one other column"
            )
        keys = table.select(self.partition_cols).append_column(
            "__row__", pa.array(range(table.num_rows), pa.int64())
        )
        groups = keys.group_by(self.partition_cols, use_threads=False).aggregate([("__row__", "list")])
        values = [groups.column(name).to_pylist() for name in self.partition_cols]
        chosen = table.select(rest)
        for at, rows in enumerate(groups.column("__row___list")):
            directory = "/".join(
                f"{name}={_in_path(column[at])}" if self.flavor else _in_path(column[at])
                for name, column in zip(self.partition_cols, values, strict=True)
            )
            yield directory, chosen.take(rows.values)


class _OpenFiles:
    """The files that a task writes to, one per directory."""

    def __init__(self, sink: ParquetDatasink, ctx: TaskContext) -> None:
        self._sink = sink
        self._ctx = ctx
        self._args = arguments_of(sink.args_fn, sink.args)
        self._args.pop("partitioning_flavor", None)
        self._group_rows = self._args.pop("row_group_size", None)
        self._schema: pa.Schema | None = self._args.pop("schema", None)
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()
        self._counts: dict[str, int] = {}
        self.written: list[str] = []

    def add(self, directory: str, table: pa.Table) -> None:
        """Write rows to a directory's file, or to several if the rows per file are limited."""
        if self._schema is not None:
            table = table.select([name for name in self._schema.names if name in table.column_names])
            table = table.cast(pa.schema([self._schema.field(name) for name in table.column_names]))
        most = self._sink.max_rows_per_file
        while table.num_rows:
            file = self._open.get(directory)
            if file is not None and (
                most is not None and file.rows >= most or fitted(table, file.schema) is None
            ):
                self._end(directory)
                file = None
            if file is None:
                file = self._begin(directory, table)
            self._open.move_to_end(directory)
            room = table.num_rows if most is None else most - file.rows
            part = fitted(table.slice(0, room), file.schema)
            assert part is not None
            file.write(part, self._group_rows)
            table = table.slice(room)

    def _begin(self, directory: str, table: pa.Table) -> _OpenFile:
        if len(self._open) >= _OPEN_MAX:
            self._end(next(iter(self._open)))
        sink = self._sink
        number = self._counts[directory] = self._counts.get(directory, -1) + 1
        name = sink._name_of_block(table, self._ctx, number)
        if sink.write_uuid not in name:
            raise ValueError(
                f"Write UUID {sink.write_uuid!r} missing from filename template {name!r}. This could result in files "
                "being overwritten. Modify your FileNameProvider implementation to include the `write_uuid` in the names"
            )
        if "parquet" not in name:
            name = f"{name}.parquet"
        where = sink.make_directory(directory)
        output = Output(sink.filesystem, f"{where}/{name}", sink.open_stream_args, sink._retried)
        self.written.append(f"{where}/{name}")
        file = self._open[directory] = _OpenFile(output, table.schema, self._args)
        return file

    def _end(self, directory: str) -> None:
        self._open.pop(directory).close()

    def close(self) -> None:
        """Finish all open files."""
        for directory in list(self._open):
            self._end(directory)

    def drop(self) -> None:
        """Discard the files that are not finished."""
        for file in self._open.values():
            file.output.drop()


class _OpenFile:
    def __init__(self, output: Output, schema: pa.Schema, args: dict[str, Any]) -> None:
        self.output = output
        self.schema = schema
        self.rows = 0
        try:
            self._writer = pq.ParquetWriter(output.file, schema, **args)
        except BaseException:  # Ctrl-C, or a schema that Parquet does not support
            output.drop()
            raise

    def write(self, table: pa.Table, group_rows: int | None) -> None:
        self._writer.write_table(table, row_group_size=group_rows)
        self.rows += table.num_rows

    def close(self) -> None:
        try:
            self._writer.close()
            self.output.done()
        except BaseException:  # Ctrl-C as well: without its footer the file is invalid
            self.output.drop()
            raise


def gathered(blocks: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield nonempty blocks, combining small ones of one schema."""
    waiting: list[pa.Table] = []
    size = 0
    for table in blocks:
        if not table.num_rows:
            continue
        if waiting and not table.schema.equals(waiting[0].schema):
            yield concat(waiting) if len(waiting) > 1 else waiting[0]
            waiting, size = [], 0
        waiting.append(table)
        size += table.nbytes
        if size >= _GATHERED:
            yield concat(waiting)
            waiting, size = [], 0
    if waiting:
        yield concat(waiting)


def _in_path(value: Any) -> str:
    return NULL_PARTITION if value is None else quote(str(value), safe=" -_.,:+@")
