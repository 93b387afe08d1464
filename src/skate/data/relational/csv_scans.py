"""Scans of CSV files by Skate's own reader, whose types and nulls are not those of Polars: it is given the tables.

A plan with such scans is translated twice: with the first rows of the files, to see if Polars can run it, and with all
rows when it runs.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import pyarrow as pa

from skate.data.context import available_cpus
from skate.data.plan import operators as logical
from skate.data.relational.refusals import StageRefused, Unproven
from skate.data.relational.used_columns import Columns
from skate.data.source.formats.csv import CSVDatasource

#: The read tasks of a scan, as the ordinary way divides it.
TasksOf = Callable[[logical.Read], Sequence[Any]]


def is_csv_scan(node: logical.Operator) -> bool:
    """True for a scan whose rows our reader makes for Polars."""
    return (
        isinstance(node, logical.Read)
        and type(node.datasource) is CSVDatasource
        and node.parallelism < 1
        and node.limit is None
        and node.datasource.is_plain()
    )


class Scans(Protocol):
    """The rows of CSV scans."""

    def tables(self, node: logical.Read) -> list[pa.Table]:
        """Return the rows of a scan."""


class FirstRows:
    """The first rows of a scan's first file."""

    def __init__(self, used: dict[int, Columns]) -> None:
        self._used = used
        self.scans = 0

    def tables(self, node: logical.Read) -> list[pa.Table]:
        """Return some rows."""
        self.scans += 1
        found = node.datasource.first_rows()
        used = self._used[id(node)]
        return [
            found if used is None else found.select([name for name in found.column_names if name in used])
        ]


class AllRows:
    """All rows of scans, read in a few threads."""

    def __init__(
        self, used: dict[int, Columns], tasks_of: TasksOf, most: int, is_wanted: Callable[[], bool]
    ) -> None:
        self._used = used
        self._tasks_of = tasks_of
        self._most = most
        self._is_wanted = is_wanted
        self._bytes = 0
        self._lock = threading.Lock()
        self._read: dict[int, list[pa.Table]] = {}

    def tables(self, node: logical.Read) -> list[pa.Table]:
        """Return all rows. Raises Unproven if they are more than the budget."""
        found = self._read.get(id(node))
        if found is None:
            tasks = self._tasks_of(_restricted(node, self._used[id(node)]))
            with ThreadPoolExecutor(max(1, min(len(tasks), available_cpus())), "skate-scan") as pool:
                found = list(itertools.chain.from_iterable(pool.map(self._blocks, tasks)))
            self._read[id(node)] = found
        return found

    def _blocks(self, task: Any) -> list[pa.Table]:
        return list(self._counted(task()))

    def _counted(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in blocks:
            with self._lock:
                self._bytes += table.nbytes
            if self._bytes > self._most:
                raise Unproven(f"the files have more than {self._most} bytes of rows")
            if not self._is_wanted():
                raise StageRefused("the stage was closed")
            yield table


def _restricted(node: logical.Read, used: Columns) -> logical.Read:
    """Return a scan of only the columns used, if its reader can do that."""
    if not used:
        return node
    columns = tuple(sorted(used))
    source = node.datasource.with_columns(columns)
    return node if source is None else logical.Read(datasource=source, compute=node.compute, columns=columns)
