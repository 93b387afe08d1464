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
from skate.data.steps.columns import FilterStep

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

    def are_filtered(self, node: logical.Read) -> bool:
        """True if these rows are those that the filter after the scan leaves."""


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

    def are_filtered(self, node: logical.Read) -> bool:
        """Return False: the filter shows if Polars can run it."""
        return False


class AllRows:
    """All rows of scans, read in a few threads, which drop those that a filter does not leave."""

    def __init__(
        self,
        plan: logical.Operator,
        used: dict[int, Columns],
        tasks_of: TasksOf,
        most: int,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._filters = _filters_of(plan)
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
                read = pool.map(self._blocks, tasks, itertools.repeat(self._filters.get(id(node))))
                found = list(itertools.chain.from_iterable(read))
            self._read[id(node)] = found
        return found

    def are_filtered(self, node: logical.Read) -> bool:
        """True if a filter is all that uses the scan."""
        return id(node) in self._filters

    def _blocks(self, task: Any, predicate: Any = None) -> list[pa.Table]:
        blocks: Iterator[pa.Table] = task()
        return list(self._counted(blocks if predicate is None else FilterStep(predicate)(blocks)))

    def _counted(self, blocks: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in blocks:
            with self._lock:
                self._bytes += table.nbytes
            if self._bytes > self._most:
                raise Unproven(f"the files have more than {self._most} bytes of rows")
            if not self._is_wanted():
                raise StageRefused("the stage was closed")
            yield table


def _filters_of(plan: logical.Operator) -> dict[int, Any]:
    """Return the conditions of filters that are the only users of CSV scans, by the scan's id."""
    users: dict[int, list[logical.Operator]] = {}
    found: dict[int, Any] = {}
    for step in plan.walk():
        for each in step.inputs:
            users.setdefault(id(each), []).append(step)
            if isinstance(step, logical.Filter) and isinstance(each, logical.Read) and is_csv_scan(each):
                found[id(each)] = step.predicate
    return {scan: predicate for scan, predicate in found.items() if len(users[scan]) == 1}


def _restricted(node: logical.Read, used: Columns) -> logical.Read:
    """Return a scan of only the columns used, if its reader can do that."""
    if not used:
        return node
    columns = tuple(sorted(used))
    source = node.datasource.with_columns(columns)
    return node if source is None else logical.Read(datasource=source, compute=node.compute, columns=columns)
