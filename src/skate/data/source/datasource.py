"""The contract of a datasource: how large it is, and the tasks that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from skate.data.block.metadata import BlockMetadata as BlockMetadata


class ReadTask:
    """A function without arguments that reads some blocks, with their metadata.

    Args:
        read_fn: returns blocks (tables, or any batch format).
        metadata: a `BlockMetadata`, or None.
        schema: the schema of the blocks, or None.
        per_task_row_limit: the most rows to read, None for no limit.
    """

    def __init__(
        self,
        read_fn: Callable[[], Iterable[Any]],
        metadata: BlockMetadata | None = None,
        schema: pa.Schema | None = None,
        per_task_row_limit: int | None = None,
    ) -> None:
        self.read_fn = read_fn
        self.metadata = metadata or BlockMetadata()
        self.schema = schema
        self.per_task_row_limit = per_task_row_limit

    @property
    def bytes(self) -> int | None:
        """The bytes that it is expected to return."""
        return self.metadata.size_bytes

    def __call__(self) -> Iterable[Any]:
        left = self.per_task_row_limit
        if left is None:
            return self.read_fn()
        return self._limited(left)

    def _limited(self, left: int) -> Iterable[Any]:
        for made in self.read_fn():
            rows = len(made)
            if rows >= left:
                yield made[:left] if not isinstance(made, pa.Table) else made.slice(0, left)
                return
            left -= rows
            yield made


class Datasource:
    """Something that can be read in parallel. Subclasses return the tasks."""

    def get_name(self) -> str:
        """Return its name in plans: the class's name without "Datasource"."""
        name = type(self).__name__
        return name[: -len("Datasource")] if name.endswith("Datasource") and name != "Datasource" else name

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the bytes that all blocks will take in memory, or None if unknown."""
        raise NotImplementedError

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return at most `parallelism` tasks, or more if the data is in more pieces that cannot be joined."""
        raise NotImplementedError

    def bytes_of_work(self) -> int | None:
        """The cost of reading in bytes, which determines the number of tasks: small files cost more than their size."""
        return self.estimate_inmemory_data_size()

    def create_reader(self, **read_args: Any) -> Reader:
        """Return a reader, for datasources with the older interface, which define `create_reader` or `prepare_read`."""
        return _DatasourceReader(self, read_args)

    def prepare_read(self, parallelism: int, **read_args: Any) -> list[ReadTask]:
        """Return the tasks, for datasources with the oldest interface."""
        raise NotImplementedError

    @property
    def should_create_reader(self) -> bool:
        """True for the older interface, whose datasources create a reader."""
        return type(self).get_read_tasks is Datasource.get_read_tasks

    @property
    def supports_distributed_reads(self) -> bool:
        """True if any node may read it."""
        return True

    # -- queries of rules, under Ray's names

    def supports_projection_pushdown(self) -> bool:
        """True if it can restrict reading to the requested columns."""
        return type(self).with_columns is not Datasource.with_columns

    def supports_predicate_pushdown(self) -> bool:
        """True if it can restrict reading to the requested rows."""
        return type(self).with_predicate is not Datasource.with_predicate

    def apply_projection(self, projection_map: dict[str, str] | None) -> Datasource:
        """Return a datasource restricted to the columns that are keys; itself if it cannot, or if there is nothing
        to restrict.
        """
        found = None if projection_map is None else self.with_columns(tuple(projection_map))
        return self if found is None else found

    def apply_predicate(self, predicate_expr: Any) -> Datasource:
        """Return a datasource restricted to rows for which an expression is true; itself if it cannot."""
        found = self.with_predicate(predicate_expr)
        return self if found is None else found

    def get_projection_map(self) -> dict[str, str] | None:
        """Return the columns to read, each with its new name; None for all."""
        return None

    def get_current_predicate(self) -> Any:
        """Return the condition on the rows to read; None for all."""
        return None

    # -- queries of rules

    def with_columns(self, columns: tuple[str, ...]) -> Datasource | None:
        """Return a datasource restricted to these columns, or None if it cannot."""
        if (
            type(self).apply_projection is Datasource.apply_projection
            or not self.supports_projection_pushdown()
        ):
            return None
        return self.apply_projection({name: name for name in columns})

    def with_predicate(self, predicate: Any) -> Datasource | None:
        """Return a datasource restricted to rows for which an expression is true, or None if it cannot."""
        if type(self).apply_predicate is Datasource.apply_predicate or not self.supports_predicate_pushdown():
            return None
        return self.apply_predicate(predicate)

    def known_schema(self) -> pa.Schema | None:
        """Return the schema, if it is known without reading blocks."""
        return None

    def known_rows(self) -> int | None:
        """Return the number of rows, if it is known without reading blocks."""
        return None

    def input_files(self) -> list[str]:
        """Return the files that the datasource reads."""
        return []


class Reader:
    """The reader that a datasource of the older interface creates for each read."""

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the bytes that all blocks will take in memory, or None if unknown."""
        raise NotImplementedError

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        """Return at most `parallelism` tasks, or more if the data is in more pieces that cannot be joined."""
        raise NotImplementedError


class _DatasourceReader(Reader):
    def __init__(self, datasource: Datasource, read_args: dict[str, Any]) -> None:
        self._datasource = datasource
        self._read_args = read_args

    def estimate_inmemory_data_size(self) -> int | None:
        return self._datasource.estimate_inmemory_data_size()

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        return self._datasource.prepare_read(parallelism, **self._read_args)
