"""Values in the paths of files: `year=2024/month=05/x.parquet`, or `2024/05/x.parquet` with names given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs

from skate.data.source.files.filesystems import resolve

#: The path component that writers use for null.
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ARROW_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
Value = Any


class PartitionStyle(str, Enum):
    """The form of values in a path: `HIVE` is `name=value`, `DIRECTORY` only the value."""

    HIVE = "hive"
    DIRECTORY = "dir"


@dataclass
class Partitioning:
    """How to parse values from the paths of files.

    Args:
        style: "hive" or "dir".
        base_dir: parse only the part of a path after this directory; empty for the whole path.
        field_names: the names of the values, in order; required for "dir"; for "hive" the names that must be present.
        field_types: int, float, str or bool by name; str by default.
        filesystem: the filesystem of `base_dir`, if it is neither a URL nor local.

    Raises ValueError for an unknown style, and for "dir" without field names.
    """

    style: PartitionStyle
    base_dir: str | None = None
    field_names: list[str] | None = None
    field_types: dict[str, type] | None = None
    filesystem: pafs.FileSystem | None = None

    def __post_init__(self) -> None:
        try:
            self.style = PartitionStyle(self.style)
        except ValueError:
            raise ValueError(
                f"the style of a Partitioning must be 'hive' or 'dir', got {self.style!r}"
            ) from None
        if self.style is PartitionStyle.DIRECTORY and not self.field_names:
            raise ValueError(
                "Directory partitioning requires a corresponding list of partition key field names: give field_names to "
                "Partitioning('dir', ...)"
            )
        self.base_dir = os.fspath(self.base_dir or "")
        self.field_types = self.field_types or {}
        for name, kind in self.field_types.items():
            if kind not in _ARROW_TYPES:
                raise ValueError(f"field_types[{name!r}] must be int, float, str or bool, got {kind!r}")

    @property
    def normalized_base_dir(self) -> str:
        """The base directory in the form of its filesystem's paths."""
        if not self.base_dir:
            return ""
        paths, found = resolve(self.base_dir, self.filesystem)
        self.filesystem = self.filesystem or found
        return paths[0].rstrip("/")

    @property
    def resolved_filesystem(self) -> pafs.FileSystem:
        """The filesystem of the base directory."""
        if self.filesystem is None:
            self.filesystem = resolve(self.base_dir or ".")[1]
        return self.filesystem

    def to_pyarrow(self) -> pads.Partitioning:
        """Return the equivalent for `pyarrow.dataset`."""
        types = {name: _ARROW_TYPES[kind] for name, kind in (self.field_types or {}).items()}
        schema = pa.schema([(name, types.get(name, pa.string())) for name in self.field_names or types])
        if self.style is PartitionStyle.HIVE:
            return pads.HivePartitioning(schema)
        return pads.DirectoryPartitioning(schema)


class PathPartitionParser:
    """A function that returns the values of a path by name; empty for paths without any.

    Raises ValueError for a path that lacks expected fields.
    """

    def __init__(self, partitioning: Partitioning) -> None:
        self._scheme = partitioning
        self._base = partitioning.normalized_base_dir

    @staticmethod
    def of(
        style: PartitionStyle = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[str] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: pafs.FileSystem | None = None,
    ) -> PathPartitionParser:
        """Build a parser from the arguments of a `Partitioning`."""
        return PathPartitionParser(Partitioning(style, base_dir, field_names, field_types, filesystem))

    @property
    def scheme(self) -> Partitioning:
        """The partitioning by which paths are parsed."""
        return self._scheme

    def __call__(self, path: str) -> dict[str, Value]:
        directories = self._directories(path)
        if self._scheme.style is PartitionStyle.HIVE:
            values = self._hive(directories, path)
        else:
            values = self._plain(directories, path)
        return {name: self._typed(name, value, path) for name, value in values.items()}

    def _directories(self, path: str) -> list[str]:
        if self._base:
            # The second form is for relative paths, which only a program that calls the parser itself passes.
            bases = (self._base, (self._scheme.base_dir or "").rstrip("/"))
            base = next((each for each in bases if path.startswith(each)), None)
            if base is None:
                return []
            path = path[len(base) :]
        return [part for part in path.split("/")[:-1] if part]

    def _hive(self, directories: list[str], path: str) -> dict[str, str]:
        pairs = [part.split("=", 1) for part in directories if part.count("=") >= 1]
        values = {name: unquote(value) for name, value in pairs if name}
        wanted = self._scheme.field_names
        if wanted and values and list(values) != list(wanted):
            raise ValueError(
                f"Expected {len(wanted)} partition value(s) but found {len(values)}: {path} has the fields {list(values)}, but "
                f"field_names are {wanted}"
            )
        return values

    def _plain(self, directories: list[str], path: str) -> dict[str, str]:
        names = self._scheme.field_names or []
        if not directories:
            return {}
        if len(directories) != len(names):
            below = f" below {self._base}" if self._base else ""
            raise ValueError(
                f"Expected {len(names)} partition value(s) but found {len(directories)}: {path} has the directories "
                f"{directories}{below}, but field_names are {names}; set base_dir if the first ones are not "
                "values"
            )
        pairs = zip(names, directories, strict=True)
        return {name: unquote(value) for name, value in pairs if name is not None}

    def _typed(self, name: str, value: str, path: str) -> Value:
        if value == NULL_PARTITION:
            return None
        kind = (self._scheme.field_types or {}).get(name, str)
        try:
            if kind is bool:
                return {"true": True, "false": False, "1": True, "0": False}[value.lower()]
            return kind(value)
        except (ValueError, KeyError):
            raise ValueError(
                f"{path}: the value {value!r} of {name!r} is not of type {kind.__name__}"
            ) from None

    def type_of(self, name: str) -> pa.DataType:
        """Return the Arrow type of a field."""
        return _ARROW_TYPES[(self._scheme.field_types or {}).get(name, str)]

    def evaluate_predicate_on_partition(self, path: str, predicate: Any) -> bool:
        """True if a file may have rows for which an expression is true, judged by its path; also if the path
        cannot decide it.
        """
        values = self(path)
        if not values:
            return True
        try:
            table = pa.table({name: pa.array([value], self.type_of(name)) for name, value in values.items()})
            found = predicate.evaluate(table)
        except (KeyError, ValueError, pa.ArrowException):  # it uses other columns as well
            return True
        first = found[0] if hasattr(found, "__getitem__") else found
        return bool(first.as_py() if hasattr(first, "as_py") else first)


class PathPartitionFilter:
    """A filter that keeps paths by a function of their values, which is {} for a path without values."""

    def __init__(
        self, path_partition_parser: PathPartitionParser, filter_fn: Callable[[dict[str, str]], bool]
    ) -> None:
        self._parser = path_partition_parser
        self._filter_fn = filter_fn

    @staticmethod
    def of(
        filter_fn: Callable[[dict[str, str]], bool],
        style: PartitionStyle = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: list[str] | None = None,
        field_types: dict[str, type] | None = None,
        filesystem: pafs.FileSystem | None = None,
    ) -> PathPartitionFilter:
        """Build a filter from a function and the arguments of a `Partitioning`."""
        parser = PathPartitionParser.of(style, base_dir, field_names, field_types, filesystem)
        return PathPartitionFilter(parser, filter_fn)

    @property
    def parser(self) -> PathPartitionParser:
        """The parser of the values."""
        return self._parser

    def apply(self, path: str) -> bool:
        """True if the path is kept."""
        return bool(self._filter_fn(self._parser(path)))

    def __call__(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if self.apply(path)]
