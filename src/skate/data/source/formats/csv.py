"""CSV: read and written by Arrow."""

from __future__ import annotations

import copy
import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.fs as pafs

from skate.data import block as blocks
from skate.data.source.files import streams
from skate.data.source.files.filesystems import is_local
from skate.data.source.files.source import FileBasedDatasource, Piece, named

#: A file, or a piece of one, up to this many bytes is read at once, so that a column's type fits all of its values.
_WHOLE = 32 << 20
#: A larger one is read in chunks of this many bytes; the first chunk determines the types.
_CHUNK = 8 << 20
#: A file up to this many bytes is read before it is parsed.
_COPIED = 1 << 16
#: The first rows of a file are those in this many bytes.
_FIRST = 1 << 18
_OPTION_TYPES = {
    "read_options": pacsv.ReadOptions,
    "parse_options": pacsv.ParseOptions,
    "convert_options": pacsv.ConvertOptions,
}


class CSVDatasource(FileBasedDatasource):
    """Reads the rows of CSV files; `arrow_csv_args` are the read_options, parse_options and convert_options
    of `pyarrow.csv`."""

    _INFLATION = 1.5

    def __init__(self, paths: Any, arrow_csv_args: dict[str, Any] | None = None, **files: Any) -> None:
        given = dict(arrow_csv_args or {})
        given.pop("memory_pool", None)
        for name, value in given.items():
            kind = _OPTION_TYPES.get(name)
            if kind is None:
                raise TypeError(
                    f"read_csv() has no argument {name!r}; the arguments for Arrow are {', '.join(_OPTION_TYPES)}"
                )
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} must be a pyarrow.csv.{kind.__name__}, got {type(value).__name__}")
        self._csv = {name: given.get(name) or kind() for name, kind in _OPTION_TYPES.items()}
        self._block_size = given["read_options"].block_size if given.get("read_options") else None
        self._columns: list[str] | None = None
        # Quoted values may contain line ends, and options that skip rows count from the beginning.
        plain = self._csv["read_options"]
        self._SPLITS = not (
            self._csv["parse_options"].newlines_in_values or plain.skip_rows or plain.skip_rows_after_names
        )
        super().__init__(paths, **files)

    def get_name(self) -> str:
        return "CSV"

    def with_columns(self, columns: tuple[str, ...]) -> CSVDatasource | None:
        options = self._csv["convert_options"]
        if self._has_values_in_paths() or self._include_paths or options.include_columns:
            return None  # the columns from the path are known when a file is read
        if not set(options.column_types) <= set(columns):
            return None  # values of other types are errors
        made = copy.copy(self)
        made._columns = list(columns)
        return made

    def _has_values_in_paths(self) -> bool:
        return self._parser is not None and any(self._parser(path) for path in self._paths())

    def is_plain(self) -> bool:
        """True if reading local files in the driver, once or twice, is the same as in workers."""
        shuffled = self._shuffle is not None or self._limit is not None
        calls_user = self._csv["parse_options"].invalid_row_handler is not None
        return not shuffled and not calls_user and is_local(self._filesystem)

    def first_rows(self) -> pa.Table:
        """Return the first rows of the first file. Raises as reading does."""
        path = self._files[0].path
        with self._open_input_source(self._filesystem, path, **self._open_args) as file:
            head = file.read(_FIRST)
        if len(head) == _FIRST:
            head = head[: head.rfind(b"\n") + 1]
        return self._with_path(blocks.from_batch(self._whole(head, path)), path)

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[pa.Table]:
        table = self._unbuffered(f, path)
        if table is not None:
            yield table
            return
        head = f.read(_WHOLE + 1)
        if len(head) <= _WHOLE:
            yield self._whole(head, path)
            return
        yield from self._streamed(
            pa.PythonFile(streams.Joined(itertools.chain((head,), streams.chunks(f, _CHUNK))), "r"),
            self._csv["read_options"],
            path,
        )

    def _unbuffered(self, f: pa.NativeFile, path: str) -> pa.Table | None:
        """Read a local file as Arrow does, without a copy of its bytes; return None for others, and for errors."""
        local = isinstance(self._filesystem, pafs.LocalFileSystem)
        if not local or self.resolve_compression(path, self._open_args):
            return None
        if not _COPIED < os.stat(path).st_size <= _WHOLE:
            return None
        try:
            return pacsv.read_csv(f, **self._csv_options(self._csv["read_options"]))
        except (pa.ArrowInvalid, KeyError):
            f.close()
        with self._open_input_source(self._filesystem, path, **self._open_args) as again:
            return self._whole(again.read(), path)  # its errors name the row

    def _whole(self, data: bytes, path: str) -> pa.Table:
        if not data.strip():
            return pa.table({})
        try:
            return pacsv.read_csv(pa.BufferReader(data), **self._csv_options(self._csv["read_options"]))
        except pa.ArrowInvalid as error:
            raise self._located(error, data, path) from None
        except KeyError as error:
            raise _unknown(error, path) from None

    def _streamed(self, file: Any, reading: pacsv.ReadOptions, path: str) -> Iterator[pa.Table]:
        options = _copied(reading)
        options.block_size = self._block_size or _CHUNK
        try:
            reader = pacsv.open_csv(file, **self._csv_options(options))
            for batch in reader:
                yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid as error:
            hint = ""
            if "conversion error" in str(error):
                hint = "; the types come from the first rows; set others with convert_options=ConvertOptions(column_types=...)"
            raise pa.ArrowInvalid(f"{path}: {error}{hint}") from None
        except KeyError as error:
            raise _unknown(error, path) from None

    def _read_range(self, f: pa.NativeFile, piece: Piece) -> Iterator[pa.Table]:
        begin, end = (streams.line_from(f, at) for at in (piece.start, piece.end or 0))
        if begin >= end:
            return
        reading = self._reading_of(f, begin)
        section = f.get_stream(begin, end - begin)
        if end - begin > _WHOLE:
            yield from self._streamed(section, reading, piece.path)
            return
        if not is_local(self._filesystem):
            reading.block_size = self._block_size or _CHUNK
        try:
            yield pacsv.read_csv(section, **self._csv_options(reading))
        except pa.ArrowInvalid as error:
            f.seek(begin)
            if f.read(end - begin).strip():
                raise _invalid(error, piece.path) from None
        except KeyError as error:
            raise _unknown(error, piece.path) from None

    def _reading_of(self, f: pa.NativeFile, begin: int) -> pacsv.ReadOptions:
        """Return the options to read the lines from a position, with the names of the columns."""
        reading = _copied(self._csv["read_options"])
        if begin:
            if not reading.column_names and not reading.autogenerate_column_names:
                reading.column_names = self._header(f)
            elif reading.autogenerate_column_names:
                reading.column_names = [f"f{at}" for at in range(len(self._header(f)))]
            reading.autogenerate_column_names = False
        return reading

    def _header(self, f: pa.NativeFile) -> list[str]:
        """Return the column names, which only the first piece of a file contains; generated if the file has none."""
        f.seek(0)
        first = next(streams.lines_at_once(f, 1 << 20), b"")
        cut = first[: first.find(b"\n") + 1] or first
        options = self._csv_options(pacsv.ReadOptions(encoding=self._csv["read_options"].encoding))
        options["convert_options"] = pacsv.ConvertOptions()
        names: list[str] = pacsv.read_csv(pa.BufferReader(cut), **options).column_names
        return names

    def _csv_options(self, reading: pacsv.ReadOptions) -> dict[str, Any]:
        converting = self._csv["convert_options"]
        if self._columns is not None:
            converting = _copied_convert(converting)
            converting.include_columns = self._columns
        return {
            "read_options": reading,
            "parse_options": self._csv["parse_options"],
            "convert_options": converting,
        }

    def _located(self, error: pa.ArrowInvalid, data: bytes, path: str) -> BaseException:
        """Return the error with its row, which Arrow knows when it reads the parts sequentially."""
        if "Row #" not in str(error):
            options = _copied(self._csv["read_options"])
            options.use_threads = False
            try:
                pacsv.read_csv(pa.BufferReader(data), **self._csv_options(options))
            except pa.ArrowInvalid as found:
                error = found
        return _invalid(error, path)


def _invalid(error: BaseException, path: str) -> BaseException:
    made: BaseException = pa.ArrowInvalid(f"Failed to read CSV file: {named(error, path)}")
    return made


def _copied(options: pacsv.ReadOptions) -> pacsv.ReadOptions:
    return pacsv.ReadOptions(
        use_threads=options.use_threads,
        block_size=options.block_size,
        skip_rows=options.skip_rows,
        skip_rows_after_names=options.skip_rows_after_names,
        column_names=options.column_names,
        autogenerate_column_names=options.autogenerate_column_names,
        encoding=options.encoding,
    )


def _copied_convert(options: pacsv.ConvertOptions) -> pacsv.ConvertOptions:
    names = (
        "check_utf8", "column_types", "null_values", "true_values", "false_values", "decimal_point", "strings_can_be_null",
        "quoted_strings_can_be_null", "include_columns", "include_missing_columns", "auto_dict_encode",
        "auto_dict_max_cardinality", "timestamp_parsers",
    )  # fmt: skip
    return pacsv.ConvertOptions(**{name: getattr(options, name) for name in names})


def _unknown(error: KeyError, path: str) -> BaseException:
    """Return Arrow's error for a missing column, with the file's name."""
    text = str(error.args[0]) if error.args else str(error)
    found = re.search(r"'([^']*)'", text)
    return ValueError(f"{path} has no column {found.group(1)!r}" if found else f"{path}: {text}")
