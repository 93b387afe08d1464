"""Reading of Parquet by row groups, so that a file may exceed memory; reads only the columns and row groups needed."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from skate.data.block import tensors
from skate.data.block.objects import refuse_pickles
from skate.data.source.datasource import BlockMetadata, ReadTask
from skate.data.source.files import streams
from skate.data.source.files.file_groups import OPEN_COST, shared_out
from skate.data.source.files.file_list import Listed
from skate.data.source.files.filesystems import is_local
from skate.data.source.files.source import FileBasedDatasource, PiecesRead
from skate.data.source.formats.parquet_footers import Footer, merged, one_schema, read_footers
from skate.data.source.formats.parquet_rows import in_schema, row_hashes, with_raw_tensors, with_ray_tensors

#: The footers of up to this many files are all read at once; of more files only this many, spread evenly.
_FOOTERS = 16
#: Row groups up to this many bytes are read at once, larger ones in batches of this size.
_WHOLE = 48 << 20
_BATCH = 16 << 20
#: A limit up to this many rows is read in batches of that size.
_FEW_ROWS = 50_000
_KNOWN_ARGS = (
    "filter", "filters", "schema", "batch_size", "use_threads", "dataset_kwargs", "fragment_scan_options", "memory_pool",
    "batch_readahead", "fragment_readahead", "cache_metadata",
)  # fmt: skip


class GroupsPiece(NamedTuple):
    """Some row groups of a file, or all of them if `groups` is None, with their bytes in memory and the rows
    before them.
    """

    path: str
    size: int
    groups: tuple[int, ...] | None
    end: None = None


class ParquetDatasource(FileBasedDatasource):
    """Reads the rows of Parquet files.

    Args:
        columns: the columns to read; None for all.
        tensor_column_schema: for binary columns that hold raw arrays: (dtype, shape) by name.
        include_row_hash: add a number unique to each row as a column "row_hash".
        skip_paths: files to skip.
        arrow_parquet_args: filter, schema, batch_size, use_threads of Arrow's reader.
        files: see FileBasedDatasource.

    Raises:
        ValueError: for columns that no file has, and for files with incompatible types.
        pyarrow.ArrowInvalid: for a file that is not Parquet; also a ValueError.
    """

    _FILE_EXTENSIONS = ["parquet"]
    _SEEKS = True
    _PATH_WINS = True

    def __init__(
        self,
        paths: Any,
        *,
        columns: Sequence[str] | None = None,
        tensor_column_schema: dict[str, tuple[Any, tuple[int, ...]]] | None = None,
        include_row_hash: bool = False,
        skip_paths: Sequence[str] | None = None,
        arrow_parquet_args: dict[str, Any] | None = None,
        **files: Any,
    ) -> None:
        given = dict(arrow_parquet_args or {})
        for name in given:
            if name not in _KNOWN_ARGS:
                raise TypeError(
                    f"read_parquet() has no argument {name!r}; the arguments for Arrow are {', '.join(_KNOWN_ARGS)}"
                )
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the str {columns!r}; pass [{columns!r}]")
        self._filter: Any = given.get("filter")
        if given.get("filters") is not None:
            wanted = pq.filters_to_expression(given["filters"])
            self._filter = wanted if self._filter is None else self._filter & wanted
        self._requested_schema: pa.Schema | None = given.get("schema")
        self._batch_size: int | None = given.get("batch_size")
        self._use_threads: bool = given.get("use_threads", True)
        self._columns: list[str] | None = None if columns is None else list(columns)
        self._raw_tensors = tensor_column_schema
        self._row_hash = include_row_hash
        if include_row_hash and self._filter is not None:
            raise ValueError(
                "include_row_hash cannot be combined with filter, because it numbers all rows of a file; filter "
                "the dataset instead"
            )
        super().__init__(paths, **files)
        if skip_paths:
            skipped = set(skip_paths)
            self._files = [each for each in self._files if each.path not in skipped]
        self._footers: dict[str, Footer] = {}
        self._read_some_footers()
        self._file_schema = self._requested_schema or one_schema(
            {p: f.schema for p, f in self._footers.items()}
        )
        if self._columns is not None:
            self._check_columns(self._columns)

    def get_name(self) -> str:
        return "Parquet"

    # -- facts known without reading rows

    def _read_some_footers(self) -> None:
        paths = self._paths()
        if len(paths) > _FOOTERS:
            step = (len(paths) - 1) / (_FOOTERS - 1)
            paths = [paths[round(at * step)] for at in range(_FOOTERS)]
        self._footers = read_footers(paths, self._filesystem, self._retried)

    def _check_columns(self, columns: Sequence[str]) -> None:
        import difflib  # only errors need it

        names = [field.name for field in self._whole_schema()]
        for name in columns:
            if name in names or name.split(".", 1)[0] in names or len(self._footers) < len(self._files):
                continue
            near = difflib.get_close_matches(name, names, 3, 0.5)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise ValueError(
                f"no column {name!r} in {self._files[0].path}{' and others' if len(self._files) > 1 else ''}; the columns are "
                f"{', '.join(names)}{hint}"
            )

    def _whole_schema(self) -> pa.Schema:
        """Return all columns that can be requested."""
        schema = self._file_schema
        for name, (dtype, shape) in (self._raw_tensors or {}).items():
            at = schema.get_field_index(name)
            if at >= 0:
                kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(np.dtype(dtype)), shape)
                schema = schema.set(at, pa.field(name, kind))
        if self._parser is not None and self._files:
            for name in self._parser(self._files[0].path):
                if schema.get_field_index(name) < 0:
                    schema = schema.append(pa.field(name, self._parser.type_of(name)))
        return schema

    def known_schema(self) -> pa.Schema | None:
        schema = self._whole_schema()
        if self._columns is not None:
            schema = pa.schema([schema.field(name) for name in self._columns if name in schema.names])
        extra = [("row_hash", pa.uint64())] if self._row_hash else []
        if self._include_paths:
            extra.append(("path", pa.string()))
        for name, kind in extra:
            schema = schema.append(pa.field(name, kind))
        return schema

    def known_rows(self) -> int | None:
        return None if self._filter is not None else self.rows_in_files()

    def rows_in_files(self) -> int:
        """Return the number of rows before filters."""
        self._read_footers_left()
        return sum(self._footers[path].rows for path in self._paths())

    def largest_decimals(self) -> list[Mapping[str, int]]:
        """Return the largest absolute values of decimals, in units of their last digit, of each file that knows them."""
        self._read_footers_left()
        return [self._footers[path].largest for path in self._paths()]

    def _read_footers_left(self) -> None:
        left = [path for path in self._paths() if path not in self._footers]
        self._footers.update(read_footers(left, self._filesystem, self._retried))

    def estimate_inmemory_data_size(self) -> int | None:
        return self.bytes_of(None)

    def bytes_of(self, columns: Sequence[str] | None) -> int:
        """Return about how many bytes of memory some columns of all rows need, or all columns that are read."""
        made = copy.copy(self)
        if columns is not None:
            made._columns = [name for name in columns if self._columns is None or name in self._columns]
        return sum(made._sizes(made._files))

    def bytes_in_files(self) -> int:
        """Return the bytes of all files, as far as they are known."""
        return sum(file.size or 0 for file in self._files)

    def _sizes(self, files: Sequence[Listed]) -> list[int]:
        """Return the size in memory of each file: from its footer, or extrapolated from the footers that were read."""
        known = self._footers
        growth = 0.0 if all(file.path in known for file in files) else self._growth()
        return [
            known[file.path].bytes_of(self._columns)
            if file.path in known
            else int((file.size or 1 << 20) * growth)
            for file in files
        ]

    def _growth(self) -> float:
        """Return the bytes in memory per byte of a file, from the footers that were read."""
        sizes = {each.path: each.size or 1 for each in self._files if each.path in self._footers}
        in_memory = sum(self._footers[path].bytes_of(self._columns) for path in sizes)
        return max(0.1, in_memory / max(1, sum(sizes.values())))

    # -- queries of rules

    def with_columns(self, columns: tuple[str, ...]) -> ParquetDatasource | None:
        if self._row_hash or (self._include_paths and "path" not in columns):
            return None
        made = copy.copy(self)
        made._columns = [name for name in columns if not (self._include_paths and name == "path")]
        if self._include_paths and list(columns) != [*made._columns, "path"]:
            return None
        return made

    def with_predicate(self, predicate: Any) -> ParquetDatasource | None:
        convert = getattr(predicate, "to_pyarrow", None)
        if convert is None or self._row_hash or self._include_paths or self._raw_tensors:
            return None
        try:
            wanted = convert()
            # An empty table reveals expressions that Arrow cannot evaluate, and missing columns.
            _filter_nothing(self._whole_schema(), wanted)
        except (TypeError, ValueError, NotImplementedError, KeyError, pa.ArrowException):
            return None
        made = copy.copy(self)
        made._filter = wanted if self._filter is None else self._filter & wanted
        return made

    def plain_scan(self, predicate: Any) -> tuple[list[str], pa.Schema, list[str] | None] | None:
        """Return files, their one schema and the columns to read, if reading is nothing but that and a filter
        by the predicate; otherwise None.
        """
        special = (self._shuffle, self._raw_tensors, self._requested_schema, self._limit)
        if any(each is not None for each in special) or self._row_hash or self._include_paths:
            return None
        taken = None if predicate is None else predicate.to_pyarrow()
        same = self._filter is None if taken is None else taken.equals(self._filter)
        if not same or not is_local(self._filesystem) or len({*self._paths()}) < len(self._files):
            return None
        if self._parser is not None and any(self._parser(path) for path in self._paths()):
            return None
        self._read_footers_left()
        schemas = [footer.schema for footer in self._footers.values()]
        if any(not schema.equals(self._file_schema) for schema in schemas):
            return None
        if self._columns is not None and not set(self._columns) <= set(self._file_schema.names):
            return None
        return self._paths(), self._file_schema, self._columns

    # -- tasks

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        files = self._ordered()
        whole = len(files) >= parallelism
        sizes = self._sizes(files)
        pieces = [
            piece
            for file, size in zip(files, sizes, strict=True)
            for piece in self._pieces_of(file, size, whole)
        ]
        rows = {path: footer.rows for path, footer in self._footers.items()}
        reader: Any = self._without_files()
        reader._limit = per_task_row_limit
        known = self._footers
        reader._footers = {}
        tasks = []
        for group in shared_out(pieces, [piece.size + OPEN_COST for piece in pieces], parallelism):
            joint = together(group)
            count = None
            if self._filter is None and all(piece.path in rows for piece in joint):
                count = sum(_rows_of(piece, known[piece.path]) for piece in joint)
            size = sum(piece.size for piece in joint)
            metadata = BlockMetadata(
                count, size, input_files=list(dict.fromkeys(piece.path for piece in joint))
            )
            tasks.append(ReadTask(PiecesRead(reader, joint), metadata, None, per_task_row_limit))
        return tasks

    def _pieces_of(self, file: Listed, size: int, whole: bool) -> list[GroupsPiece]:
        footer = self._footers.get(file.path)
        if whole or footer is None or len(footer.groups) < 2:
            return [GroupsPiece(file.path, size, None)]
        return [
            GroupsPiece(file.path, group.bytes_of(self._columns), (at,))
            for at, group in enumerate(footer.groups)
        ]

    # -- in a task

    def _each(self, pieces: Sequence[Any], seen: dict[str, pa.Schema]) -> Iterator[pa.Table]:
        for piece in pieces:
            for table in streams.retried_each(functools.partial(self._read, piece, None), self._retried):
                seen[piece.path] = table.schema
                yield table

    def _read(self, piece: Any, data: bytes | None) -> Iterator[pa.Table]:
        try:
            yield from self._tables(piece)
        except GeneratorExit:
            raise
        except Exception as error:  # any error of Arrow or a filesystem: the file's name is added
            better = self._explained(error, piece.path)
            if better is error:
                raise
            raise better from error

    def _explained(self, error: BaseException, path: str) -> BaseException:
        text = str(error)
        if path in text:
            return error
        if isinstance(error, pa.ArrowException):
            make: Callable[[str], BaseException] = type(error)
            return make(f"{path}: {text}")
        return OSError(f"{path} cannot be read as Parquet: {text}") if type(error) is OSError else error

    def _tables(self, piece: GroupsPiece) -> Iterator[pa.Table]:
        big = piece.size > 2 * _WHOLE
        few = self._limit is not None and self._limit <= _FEW_ROWS
        local = is_local(self._filesystem)
        source = piece.path if local else None
        file = None if local else self._filesystem.open_input_file(piece.path)
        options = {"buffer_size": 1 << 20} if big or few else {"pre_buffer": not local}
        with pq.ParquetFile(source or file, **options) as opened:
            schema = opened.schema_arrow
            if not schema.equals(self._file_schema):
                merged(self._file_schema, schema, "others", piece.path)
            if self._filter is not None and not few and not big:
                yield self._filtered(piece, schema)
                return
            yield from self._unfiltered(opened, piece, schema, few)

    def _unfiltered(
        self, opened: pq.ParquetFile, piece: GroupsPiece, schema: pa.Schema, few: bool
    ) -> Iterator[pa.Table]:
        metadata = opened.metadata
        groups = range(metadata.num_row_groups) if piece.groups is None else piece.groups
        names = self._names_in(schema)
        starts = [0]
        for at in range(metadata.num_row_groups if self._row_hash else 0):
            starts.append(starts[-1] + metadata.row_group(at).num_rows)
        if piece.size <= _WHOLE and not few:
            table = self._read_groups(opened, list(groups), names, metadata)
            yield self._finished(table, piece.path, starts[groups[0]] if self._row_hash and groups else 0)
            return
        for at in groups:
            group = metadata.row_group(at)
            start = starts[at] if self._row_hash else 0
            if group.total_byte_size <= _WHOLE // 2 and not few:
                yield self._finished(self._read_groups(opened, [at], names, metadata), piece.path, start)
                continue
            rows = self._batch_rows(group, few)
            for batch in opened.iter_batches(
                rows, row_groups=[at], columns=names, use_threads=self._use_threads
            ):
                yield self._finished(pa.Table.from_batches([batch]), piece.path, start)
                start += batch.num_rows

    def _batch_rows(self, group: Any, few: bool) -> int:
        if few:
            return max(1, self._limit or 1)
        width = max(1, group.total_byte_size // max(1, group.num_rows))
        return self._batch_size or max(1, min(_BATCH // width, 1 << 20))

    def _read_groups(
        self, opened: pq.ParquetFile, groups: list[int], names: list[str] | None, metadata: Any
    ) -> pa.Table:
        if names == []:  # the rows are needed, though none of their columns is
            rows = sum(metadata.row_group(at).num_rows for at in groups)
            return pa.table({_COUNTED: pa.nulls(rows)})
        if len(groups) == metadata.num_row_groups:
            return opened.read(columns=names, use_threads=self._use_threads)
        return opened.read_row_groups(groups, columns=names, use_threads=self._use_threads)

    def _names_in(self, schema: pa.Schema) -> list[str] | None:
        """Return the columns to read from a file; None for all."""
        if self._columns is None:
            return None
        if self._filter is not None:
            return None  # the filter may use columns that are not requested
        return [name for name in self._columns if name.split(".", 1)[0] in schema.names]

    def _finished(self, table: pa.Table, path: str, start: int) -> pa.Table:
        """Finish a table of a file: add columns from the path, convert types, filter, and select the columns in
        order.
        """
        rows = table.num_rows
        table = with_ray_tensors(table)
        if self._raw_tensors:
            table = with_raw_tensors(table, self._raw_tensors)
        if self._parser is not None:
            include, self._include_paths = self._include_paths, False
            table = self._with_path(table, path)
            self._include_paths = include
        if self._requested_schema is not None:
            table = in_schema(table, self._requested_schema)
        if self._filter is not None:
            table = table.filter(self._filter)
        if self._columns is not None:
            table = self._chosen(table, rows)
        if self._row_hash:
            table = table.append_column("row_hash", row_hashes(path, start, rows))
        if self._include_paths:
            table = table.append_column("path", pa.repeat(pa.scalar(path, pa.string()), table.num_rows))
        return refuse_pickles(table.replace_schema_metadata(None) if table.schema.metadata else table, path)

    def _chosen(self, table: pa.Table, rows: int) -> pa.Table:
        made: dict[str, Any] = {}
        for name in self._columns or ():
            top = name.split(".", 1)[0]
            if name in table.column_names:
                made[name] = table.column(name)
            elif top in table.column_names:
                made[top] = table.column(top)
            else:  # this file lacks a column that others have
                kind = self._file_schema.field(name).type if name in self._file_schema.names else pa.null()
                made[name] = (
                    pa.nulls(table.num_rows, kind)
                    if not tensors.is_tensor(kind)
                    else pa.nulls(table.num_rows)
                )
        return pa.table(made)

    def _filtered(self, piece: GroupsPiece, schema: pa.Schema) -> pa.Table:
        """Yield the rows of some row groups for which the filter is true; row groups without any are not read."""
        partition = None
        whole = merged(self._file_schema, schema, "others", piece.path)
        values = {} if self._parser is None else self._parser(piece.path)
        for name, value in values.items():
            test = pads.field(name) == pa.scalar(value, self._parser.type_of(name)) if self._parser else None
            if value is None:
                test = pads.field(name).is_null()
            partition = test if partition is None else partition & test
            if name not in whole.names and self._parser is not None:
                whole = whole.append(pa.field(name, self._parser.type_of(name)))
        fragment = pads.ParquetFileFormat().make_fragment(
            piece.path, self._filesystem, partition_expression=partition, row_groups=piece.groups
        )
        columns = self._columns if self._columns is not None else whole.names
        table = fragment.to_table(
            schema=whole, columns=list(columns), filter=self._filter, use_threads=self._use_threads
        )
        reader: Any = self._without_files()
        reader._filter = reader._parser = reader._columns = None
        found: pa.Table = reader._finished(table, piece.path, 0)
        return found


_COUNTED = "__rows__"


def together(pieces: Sequence[GroupsPiece]) -> list[GroupsPiece]:
    """Merge consecutive row groups of one file into one piece."""
    found: list[GroupsPiece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if (
            last is not None
            and last.path == piece.path
            and last.groups is not None
            and piece.groups is not None
        ):
            found[-1] = GroupsPiece(piece.path, last.size + piece.size, (*last.groups, *piece.groups))
        else:
            found.append(piece)
    return found


def _filter_nothing(schema: pa.Schema, wanted: Any) -> None:
    """Filter an empty table, in this thread; `Table.filter` waits for others."""
    from pyarrow import acero  # it imports pandas, so only filters should pay for it

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(schema.empty_table()))
    filtered = acero.Declaration("filter", acero.FilterNodeOptions(wanted), [source])
    filtered.to_table(use_threads=False)


def _rows_of(piece: GroupsPiece, footer: Footer) -> int:
    if piece.groups is None:
        return footer.rows
    return sum(footer.groups[at].rows for at in piece.groups)
