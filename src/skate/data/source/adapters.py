"""Adapts users' datasources, including older interfaces, to the interface that the engine uses."""

from __future__ import annotations

import inspect
from typing import Any

from skate.data.source.datasource import Datasource, ReadTask


def adapted(datasource: Any, read_args: dict[str, Any]) -> Datasource:
    """Adapt a datasource to the engine's interface. Raises TypeError for other objects."""
    if isinstance(datasource, type):
        raise TypeError(f"read_datasource takes an instance: {datasource.__name__}(...), not the class")
    if not hasattr(datasource, "get_read_tasks") and not hasattr(datasource, "create_reader"):
        raise TypeError(
            f"a datasource must define get_read_tasks(parallelism), but {type(datasource).__name__} does not"
        )
    return Adapted(datasource, read_args)


class Adapted(Datasource):
    """A user's datasource, which may have fewer methods or arguments than Skate's."""

    def __init__(self, inner: Any, read_args: dict[str, Any]) -> None:
        self.inner = inner
        self._reader: Any = inner
        older = isinstance(inner, Datasource) and inner.should_create_reader
        if older or not hasattr(inner, "get_read_tasks"):
            self._reader = inner.create_reader(**read_args)

    def get_name(self) -> str:
        found = getattr(self.inner, "get_name", None)
        return str(found()) if found is not None else type(self.inner).__name__

    @property
    def supports_distributed_reads(self) -> bool:
        return bool(getattr(self.inner, "supports_distributed_reads", True))

    def estimate_inmemory_data_size(self) -> int | None:
        estimate = getattr(self._reader, "estimate_inmemory_data_size", None)
        try:
            found: int | None = None if estimate is None else estimate()
        except NotImplementedError:
            return None
        return found

    def bytes_of_work(self) -> int | None:
        return self._known("bytes_of_work") or self.estimate_inmemory_data_size()

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        ask = self._reader.get_read_tasks
        names = inspect.signature(ask).parameters
        more: dict[str, Any] = {}
        if "per_task_row_limit" in names:
            more["per_task_row_limit"] = per_task_row_limit
        tasks = ask(parallelism, **more)
        found = []
        for task in tasks:
            if not isinstance(task, ReadTask):
                raise TypeError(
                    f"get_read_tasks of {self.get_name()} must return ReadTasks, got {type(task).__name__}"
                )
            found.append(task)
        return found

    def with_columns(self, columns: tuple[str, ...]) -> Datasource | None:
        return self._better("with_columns", columns)

    def with_predicate(self, predicate: Any) -> Datasource | None:
        return self._better("with_predicate", predicate)

    def _better(self, name: str, given: Any) -> Datasource | None:
        ask = getattr(self.inner, name, None)
        found = None if ask is None or self._reader is not self.inner else ask(given)
        return None if found is None else Adapted(found, {})

    def known_schema(self) -> Any:
        return self._known("known_schema")

    def known_rows(self) -> int | None:
        found: int | None = self._known("known_rows")
        return found

    def input_files(self) -> list[str]:
        return self._known("input_files") or []

    def _known(self, name: str) -> Any:
        ask = getattr(self.inner, name, None)
        try:
            return None if ask is None or self._reader is not self.inner else ask()
        except NotImplementedError:
            return None
