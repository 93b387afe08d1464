"""The base of datasources that read files: finds files, divides them among tasks, opens them, adds values from
their paths.
"""

from __future__ import annotations

import copy
import functools
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skate.data import block as blocks
from skate.data.block.table import UnlikeTypes
from skate.data.context import DataContext
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask
from skate.data.source.files import streams
from skate.data.source.files.file_groups import OPEN_COST, shared_out
from skate.data.source.files.file_list import Listed, list_files
from skate.data.source.files.filesystems import as_list, is_local, resolve, scheme_of
from skate.data.source.files.path_partitions import Partitioning, PathPartitionParser

#: Remote files up to this many bytes are fetched whole, several at a time.
_FETCHED_WHOLE = 8 << 20
_FETCHES = 16
#: Blocks of small files are joined up to about this many bytes.
_JOINED_BYTES = 1 << 20
#: A file is divided among tasks into pieces of at least this many bytes.
_PIECE_BYTES_MIN = 16 << 20
_UNKNOWN_SIZE = 1 << 20


class Piece(NamedTuple):
    """A file, or the lines of it that begin in a range of bytes."""

    path: str
    size: int
    start: int = 0
    end: int | None = None


@dataclass(frozen=True)
class FileShuffleConfig:
    """Files in random order: the same for a given seed, and with `reseed_after_execution` a new one in each epoch."""

    seed: int | None = None
    reseed_after_execution: bool = True

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"Seed must be an integer or None, not {self.seed!r}")
        if self.seed is None and not self.reseed_after_execution:
            object.__setattr__(self, "seed", random.randrange(1 << 32))

    def get_seed(self, execution_idx: int = 0) -> int | None:
        """Return the seed of the run with this number, or None for any order."""
        if self.seed is None:
            return None
        if self.reseed_after_execution:
            return hash((self.seed, execution_idx)) % (1 << 32)
        return self.seed


class FileBasedDatasource(Datasource):
    """Reads files. A subclass defines `_read_stream(file, path)`, which yields the blocks of one file.

    Args:
        paths: files, directories, patterns or URLs.
        filesystem: a `pyarrow.fs` or fsspec filesystem; None to derive it from the URLs.
        schema: the schema of the blocks, if it is known.
        open_stream_args: keyword arguments for `open_input_stream`.
        meta_provider: accepted for compatibility, and not used.
        partition_filter: a predicate on paths; reads the paths for which it is true.
        partitioning: how values are parsed from paths; they become columns.
        ignore_missing_paths: skip paths that do not exist.
        shuffle: "files" or a `FileShuffleConfig` for files in random order.
        include_paths: add the path of each row's file as a column "path".
        file_extensions: read only files with these extensions.

    Raises:
        FileNotFoundError: for a path that does not exist.
        ValueError: if no files remain to read.
    """

    _WRITE_FILE_PER_ROW = False
    _FILE_EXTENSIONS: list[str] | None = None
    #: True if files are opened for random access rather than sequential reading.
    _SEEKS = False
    #: True if `_read_range` can read the lines that begin in a range of bytes.
    _SPLITS = False
    #: True if a value in the path overrides a different one in the file.
    _PATH_WINS = False
    #: True if only workers read the files, because a C library parses them and a crash must not end the driver.
    _APART = False
    #: The bytes in memory per byte of a file, if there is no better estimate.
    _INFLATION = 1.0

    def __init__(
        self,
        paths: Any,
        *,
        filesystem: Any = None,
        schema: Any = None,
        open_stream_args: dict[str, Any] | None = None,
        meta_provider: Any = None,
        partition_filter: Any = None,
        partitioning: Partitioning | None = None,
        ignore_missing_paths: bool = False,
        shuffle: Any = None,
        include_paths: bool = False,
        file_extensions: list[str] | None = None,
    ) -> None:
        if shuffle is not None and shuffle != "files" and not isinstance(shuffle, FileShuffleConfig):
            raise ValueError(
                f"Invalid value for 'shuffle': {shuffle}. Valid values are None, 'files' and a FileShuffleConfig."
            )
        context = DataContext.get_current()
        self._retried: tuple[str, ...] = tuple(context.retried_io_errors)
        self._buffer_size = context.streaming_read_buffer_size
        self._on_driver = any(scheme_of(path) == "local" for path in as_list(paths))
        self._schema = schema
        self._open_args = dict(open_stream_args or {})
        self._include_paths = include_paths
        self._shuffle = shuffle
        self._executions = 0
        self._parser = None if partitioning is None else PathPartitionParser(partitioning)
        self._limit: int | None = None
        resolved, self._filesystem = streams.retried(lambda: resolve(paths, filesystem), self._retried)
        given = file_extensions is not None and file_extensions is not self._FILE_EXTENSIONS
        self._files = streams.retried(
            lambda: list_files(
                resolved,
                self._filesystem,
                extensions=file_extensions,
                extensions_given=given,
                ignore_missing=ignore_missing_paths,
            ),
            self._retried,
        )
        self._keep(partition_filter)
        if not self._files:
            raise ValueError(
                _nothing_in(as_list(paths), file_extensions, ignore_missing_paths, partition_filter)
            )

    def _keep(self, partition_filter: Any) -> None:
        """Drop the files that the user's filter rejects."""
        if partition_filter is None:
            return
        if hasattr(partition_filter, "apply"):
            self._files = [each for each in self._files if partition_filter.apply(each.path)]
        else:
            kept = set(partition_filter([each.path for each in self._files]))
            self._files = [each for each in self._files if each.path in kept]

    # -- for subclasses

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[Any]:
        """Yield the blocks of one file."""
        raise NotImplementedError(f"{type(self).__name__} must define _read_stream(f, path)")

    def _read_range(self, f: pa.NativeFile, piece: Piece) -> Iterator[Any]:
        """Yield the blocks of the lines that begin in a range of bytes of a file."""
        raise NotImplementedError

    def _open_input_source(self, filesystem: pafs.FileSystem, path: str, **open_args: Any) -> pa.NativeFile:
        """Open a file for reading."""
        if self._SEEKS:
            return streams.open_file(filesystem, path, open_args)
        return streams.open_stream(filesystem, path, open_args, None)

    def _explained(self, error: BaseException, path: str) -> BaseException | None:
        """Return a better error for one raised by reading a file, or None."""
        return None

    def resolve_compression(self, path: str, open_args: dict[str, Any]) -> str | None:
        """Return the compression of a file."""
        compression = open_args.get("compression", "detect")
        return streams.compression_of(path) if compression == "detect" else compression

    # -- as a datasource

    def _paths(self) -> list[str]:
        return [each.path for each in self._files]

    def input_files(self) -> list[str]:
        return self._paths()

    @property
    def supports_distributed_reads(self) -> bool:
        return not self._on_driver

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(self._bytes_of(each) for each in self._files)

    def bytes_of_work(self) -> int | None:
        estimate = self.estimate_inmemory_data_size()
        return None if estimate is None else estimate + OPEN_COST * (len(self._files) - 1)

    def _bytes_of(self, file: Listed) -> int:
        size = _UNKNOWN_SIZE if file.size is None else file.size
        packed = 3.0 if streams.compression_of(file.path) else 1.0
        return int(size * packed * self._INFLATION)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        files = self._ordered()
        pieces = self._pieces(files, parallelism)
        weights = [piece.size + OPEN_COST for piece in pieces]
        reader = self._without_files()
        reader._limit = per_task_row_limit
        tasks = []
        for group in shared_out(pieces, weights, parallelism):
            size = sum(piece.size for piece in group)
            metadata = BlockMetadata(
                size_bytes=size, input_files=list(dict.fromkeys(piece.path for piece in group))
            )
            tasks.append(ReadTask(PiecesRead(reader, group), metadata, self._schema, per_task_row_limit))
        return tasks

    def _ordered(self) -> list[Listed]:
        if self._shuffle is None:
            return self._files
        seed = None if self._shuffle == "files" else self._shuffle.get_seed(self._executions)
        self._executions += 1
        files = list(self._files) if seed is None else sorted(self._files, key=lambda each: each.path)
        return [files[at] for at in np.random.default_rng(seed).permutation(len(files))]

    def _pieces(self, files: Sequence[Listed], parallelism: int) -> list[Piece]:
        """Return whole files, or parts of large ones if there are fewer files than tasks."""
        whole = [Piece(each.path, self._bytes_of(each)) for each in files]
        if not self._SPLITS or len(files) >= parallelism:
            return whole
        total = sum(each.size for each in whole)
        wanted = max(_PIECE_BYTES_MIN, total // parallelism + 1)
        pieces: list[Piece] = []
        for each, file in zip(whole, files, strict=True):
            if (
                file.size is None
                or file.size < 2 * wanted
                or self.resolve_compression(file.path, self._open_args)
            ):
                pieces.append(each)
                continue
            count = round(file.size / wanted)
            cuts = [file.size * at // count for at in range(count + 1)]
            pieces += [
                Piece(file.path, each.size // count, low, high)
                for low, high in zip(cuts, cuts[1:], strict=False)
            ]
        return pieces

    def _without_files(self) -> FileBasedDatasource:
        """Return a copy without the list of files, to send with each task."""
        light = copy.copy(self)
        light._files = []
        return light

    # -- in a task

    def read_pieces(self, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
        """Yield the blocks of some files, joining those of small ones."""
        seen: dict[str, pa.Schema] = {}
        try:
            yield from joined(self._each(pieces, seen), self._limit)
        except UnlikeTypes as error:
            raise _naming_files(error, seen) from None

    def _each(self, pieces: Sequence[Piece], seen: dict[str, pa.Schema]) -> Iterator[pa.Table]:
        """Yield the blocks of some files; add the schema of each file to `seen`."""
        ahead: Iterable[tuple[Piece, bytes | None]] = ((piece, None) for piece in pieces)
        if not is_local(self._filesystem) and len(pieces) > 1:
            ahead = self._fetched(pieces)
        for piece, data in ahead:
            for table in streams.retried_each(functools.partial(self._read, piece, data), self._retried):
                seen[piece.path] = table.schema
                yield table

    def _fetched(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, bytes | None]]:
        """Yield pieces in order with the bytes of small files, which are requested ahead of time."""

        def fetch(piece: Piece) -> bytes:
            with self._open_input_source(self._filesystem, piece.path, **self._open_args) as file:
                data: bytes = file.read()
                return data

        with ThreadPoolExecutor(_FETCHES) as pool:
            ahead: deque[tuple[Piece, Future[bytes] | None]] = deque()
            for piece in pieces:
                small = piece.size <= _FETCHED_WHOLE and piece.end is None
                fetched = None
                if small:
                    fetched = pool.submit(streams.retried, functools.partial(fetch, piece), self._retried)
                ahead.append((piece, fetched))
                if len(ahead) > 2 * _FETCHES:
                    yield _waited(*ahead.popleft())
            while ahead:
                yield _waited(*ahead.popleft())

    def _read(self, piece: Piece, data: bytes | None) -> Iterator[pa.Table]:
        path = piece.path
        try:
            if data is not None:
                file = pa.BufferReader(data)
            elif piece.end is not None:
                file = streams.open_file(self._filesystem, path, {})
            else:
                file = self._open_input_source(self._filesystem, path, **self._open_args)
            with file:
                made = self._read_stream(file, path) if piece.end is None else self._read_range(file, piece)
                for table in made:
                    yield self._with_path(blocks.from_batch(table), path)
        except GeneratorExit:
            raise
        except Exception as error:  # any error of a library: the file's name is added
            better = self._explained(error, path) or named(error, path)
            if better is error:
                raise
            raise better from error

    def _with_path(self, table: pa.Table, path: str) -> pa.Table:
        """Add the columns from the path to a block."""
        if self._parser is not None:
            for name, value in self._parser(path).items():
                column = pa.repeat(pa.scalar(value, self._parser.type_of(name)), table.num_rows)
                at = table.schema.get_field_index(name)
                if at >= 0:
                    if not self._PATH_WINS:
                        _check_same(table, name, value, path)
                    table = table.set_column(at, name, _of_type(column, table.schema.field(at).type))
                else:
                    table = table.append_column(name, column)
        if self._include_paths:
            table = table.append_column("path", pa.repeat(pa.scalar(path, pa.string()), table.num_rows))
        return table


class PiecesRead:
    """The function that a read task calls."""

    def __init__(self, reader: FileBasedDatasource, pieces: Sequence[Any]) -> None:
        self.reader = reader
        self.pieces = pieces

    def __call__(self) -> Iterator[pa.Table]:
        return self.reader.read_pieces(self.pieces)


def joined(tables: Iterable[pa.Table], limit: int | None) -> Iterator[pa.Table]:
    """Join small blocks until they have about a megabyte, or as many rows as are needed."""
    waiting: list[pa.Table] = []
    size = rows = 0
    for table in tables:
        bytes_in = table.nbytes
        if not waiting and bytes_in >= _JOINED_BYTES:
            yield table
            continue
        waiting.append(table)
        size += bytes_in
        rows += table.num_rows
        if size >= _JOINED_BYTES or (limit is not None and rows >= limit):
            yield _one(waiting)
            waiting, size, rows = [], 0, 0
    if waiting:
        yield _one(waiting)


def _naming_files(error: UnlikeTypes, seen: dict[str, pa.Schema]) -> ValueError:
    """Build the error of a column with incompatible types, with one file for each type."""
    files: dict[str, str] = {}
    for path, schema in seen.items():
        if error.column in schema.names:
            files.setdefault(str(schema.field(error.column).type), path)
    kinds = " and ".join(f"{kind} in {path}" for kind, path in files.items())
    return ValueError(
        f"column {error.column!r} is {kinds}, which are incompatible; give the column's type when reading, or "
        "read the files separately and cast the column in one of them"
    )


def _one(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else blocks.concat(tables).combine_chunks()


def _waited(piece: Piece, future: Future[bytes] | None) -> tuple[Piece, bytes | None]:
    return piece, None if future is None else future.result()


def _of_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert the values of a path to the column's type in the file, if possible."""
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column


def _check_same(table: pa.Table, name: str, value: Any, path: str) -> None:
    """Raise unless a column that the path also has agrees with the path's value."""
    kind = table.schema.field(name).type
    same = {str(value), str(_of_type(pa.array([value]), kind)[0].as_py())}
    for stored in table.column(name).unique().to_pylist():
        if stored is not None and str(stored) not in same:
            raise ValueError(
                f"{path}: column {name!r} has the value {stored!r} in the file and {value!r} in the path"
            )


def named(error: BaseException, path: str) -> BaseException:
    """Add the file's path to an error, keeping its type if that can be built from a text."""
    if path in str(error) or getattr(error, "filename", None):
        return error
    if isinstance(error, OSError) and error.errno:
        return type(error)(error.errno, error.strerror or str(error), path)
    make: Callable[[str], BaseException] = type(error)
    if isinstance(error, UnicodeError):
        make = ValueError
    try:
        return make(f"{path}: {error}")
    except TypeError:  # an exception type that takes other arguments
        return ValueError(f"{path}: {type(error).__name__}: {error}")


def _nothing_in(
    paths: Sequence[str], extensions: Sequence[str] | None, ignore_missing: bool, partition_filter: Any
) -> str:
    shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    text = "No input files found to read"
    if extensions is not None:
        text += (
            f" with the following file extensions: {list(extensions)}. Pass file_extensions=None for any name"
        )
    text += f": no files found under {shown}"
    if partition_filter is not None:
        text += "; 'partition_filter' may have left out all of them"
    if ignore_missing:
        text += "; paths that do not exist were skipped because of ignore_missing_paths"
    return text + "; names that begin with '.' or '_' are skipped in directories"
