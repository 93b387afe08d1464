"""Values available as refs, or as an iterator in another library, read lazily."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from skate.data.block import from_rows
from skate.data.source.datasource import BlockMetadata, Datasource, ReadTask

_ROWS_AT_ONCE = 1024
#: The assumed size of a value behind a ref, which is unknown before it is available.
_BYTES_GUESSED = 16 << 20


class RefsDatasource(Datasource):
    """Values behind refs, each converted to a block by a function."""

    def __init__(self, name: str, refs: Sequence[Any], convert: Callable[[Any], pa.Table]) -> None:
        self._name = name
        self._refs = list(refs)
        self._convert = convert

    def get_name(self) -> str:
        return self._name

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        return [
            ReadTask(
                _Fetched(ref, self._convert), BlockMetadata(None, _BYTES_GUESSED), None, per_task_row_limit
            )
            for ref in self._refs
        ]


class _Fetched:
    def __init__(self, ref: Any, convert: Callable[[Any], pa.Table]) -> None:
        self.ref = ref
        self.convert = convert

    def __call__(self) -> Iterator[pa.Table]:
        import skate  # the session is used when the value is fetched

        yield self.convert(skate.get(self.ref))


class IterableDatasource(Datasource):
    """The rows of a sequential iterable: one task reads them all, block by block."""

    def __init__(
        self, name: str, rows: Iterable[Any], convert: Callable[[Any], dict[str, Any]], local: bool = False
    ) -> None:
        self._name = name
        self._rows = rows
        self._convert = convert
        self._local = local

    def get_name(self) -> str:
        return self._name

    @property
    def supports_distributed_reads(self) -> bool:
        return not self._local

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        return [ReadTask(_Rows(self._rows, self._convert), BlockMetadata(), None, per_task_row_limit)]


class _Rows:
    def __init__(self, rows: Iterable[Any], convert: Callable[[Any], dict[str, Any]]) -> None:
        self.rows = rows
        self.convert = convert

    def __call__(self) -> Iterator[pa.Table]:
        source = iter(self.rows)
        while some := list(itertools.islice(source, _ROWS_AT_ONCE)):
            yield from_rows([self.convert(value) for value in some])


class MapStyleDatasource(Datasource):
    """Rows accessed by index, as in torch's map-style datasets; each task reads a range of indices."""

    def __init__(self, name: str, rows: Any, convert: Callable[[Any], dict[str, Any]]) -> None:
        self._name = name
        self._rows = rows
        self._convert = convert

    def get_name(self) -> str:
        return self._name

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def known_rows(self) -> int:
        return len(self._rows)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        total = len(self._rows)
        count = max(1, min(parallelism, -(-total // _ROWS_AT_ONCE)))
        cuts = [total * at // count for at in range(count + 1)]
        return [
            ReadTask(
                _Rows(_Numbered(self._rows, low, high), self._convert),
                BlockMetadata(high - low),
                None,
                per_task_row_limit,
            )
            for low, high in zip(cuts, cuts[1:], strict=False)
        ]


class _Numbered:
    def __init__(self, rows: Any, low: int, high: int) -> None:
        self.rows = rows
        self.low = low
        self.high = high

    def __iter__(self) -> Iterator[Any]:
        return (self.rows[at] for at in range(self.low, self.high))


def as_row(value: Any) -> dict[str, Any]:
    """A dict is a row, anything else becomes {"item": value}."""
    return value if isinstance(value, dict) else {"item": value}
