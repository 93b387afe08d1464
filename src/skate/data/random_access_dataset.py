"""Rows of a dataset by key: sorted blocks held by actors, which search in them."""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate.data import block as blocks
from skate.data.block import columns

if TYPE_CHECKING:
    from skate import ObjectRef
    from skate.data.dataset import Dataset

_WORKERS_PER_NODE = 4


class RandomAccessDataset:
    """The rows of a dataset by the values of one column; of several rows with the same value, one is
    returned. Created by `Dataset.to_random_access_dataset`."""

    def __init__(self, ds: Dataset, key: str, num_workers: int | None = None) -> None:
        import skate  # a dataset that is only read from needs no session

        if num_workers is not None and num_workers < 1:
            raise ValueError(f"num_workers must be >= 1, got {num_workers}")
        started = time.perf_counter()
        sorted_blocks = ds.sort(key).materialize()
        refs = sorted_blocks.get_internal_block_refs()
        ends = skate.get([skate.remote(num_cpus=0)(_last).remote(ref, key) for ref in refs])
        held = [(end, ref) for (end, some), ref in zip(ends, refs, strict=True) if some]
        self._ends = [end for end, _ in held]
        count = num_workers or _WORKERS_PER_NODE * max(1, len(skate.nodes()))
        count = max(1, min(count, len(held)))
        serving = skate.remote(num_cpus=0)(_Server)
        self._servers = []
        self._server_of: list[Any] = []
        for number in range(count):
            low, high = len(held) * number // count, len(held) * (number + 1) // count
            self._servers.append(serving.remote(key, low, [[ref] for _, ref in held[low:high]]))
            self._server_of += [self._servers[-1]] * (high - low)
        self._per_server = [
            len(held) * (number + 1) // count - len(held) * number // count for number in range(count)
        ]
        self._seconds = time.perf_counter() - started

    def get_async(self, key: Any) -> ObjectRef[Any]:
        """Return a ref to the row with a key, or to None if there is no such row."""
        import skate  # imported only if used

        at = self._block_of(key)
        if at is None:
            return skate.put(None)
        found: ObjectRef[Any] = self._server_of[at].get.remote(at, key)
        return found

    def multiget(self, keys: list[Any]) -> list[Any | None]:
        """Return the rows with the given keys, None where a key does not exist; makes one call per actor involved."""
        import skate  # imported only if used

        requests: dict[int, list[tuple[int, int, Any]]] = {}
        found: list[Any | None] = [None] * len(keys)
        for index, key in enumerate(keys):
            at = self._block_of(key)
            if at is not None:
                requests.setdefault(self._servers.index(self._server_of[at]), []).append((index, at, key))
        calls = [
            self._servers[number].get_many.remote([(at, key) for _, at, key in wanted])
            for number, wanted in requests.items()
        ]
        for wanted, rows in zip(requests.values(), skate.get(calls), strict=True):
            for (index, _, _), row in zip(wanted, rows, strict=True):
                found[index] = row
        return found

    def stats(self) -> str:
        """Return the structure and the usage statistics as text."""
        import skate  # imported only if used

        calls, seconds = zip(*skate.get([server.used.remote() for server in self._servers]), strict=True)
        mean = 1e6 * sum(seconds) / max(1, sum(calls))
        return "\n".join(
            [
                "RandomAccessDataset:",
                f"- Build time: {self._seconds:.2f}s",
                f"- Num workers: {len(self._servers)}",
                f"- Blocks per worker: {_spread(self._per_server)}",
                f"- Accesses per worker: {_spread(calls)}",
                f"- Mean access time: {mean:.0f}us",
            ]
        )

    def _block_of(self, key: Any) -> int | None:
        at = bisect.bisect_left(self._ends, key)
        return None if at == len(self._ends) else at


def _spread(numbers: Iterable[int]) -> str:
    found = list(numbers)
    return f"{min(found)} min, {max(found)} max, {sum(found) // len(found)} mean"


def _keys(table: pa.Table, key: str) -> list[Any]:
    """The keys of a sorted block, without the nulls at the end."""
    return [value for value in columns.to_values(table.column(key)) if value is not None]


def _last(table: pa.Table, key: str) -> tuple[Any, bool]:
    """The largest key of a block, and whether it has any."""
    keys = _keys(table, key)
    return (keys[-1], True) if keys else (None, False)


class _Server:
    """Holds neighbouring blocks and searches in them."""

    def __init__(self, key: str, first: int, holders: list[list[Any]]) -> None:
        import skate  # workers have it

        tables = skate.get([holder[0] for holder in holders])
        self._blocks = {first + number: (_keys(table, key), table) for number, table in enumerate(tables)}
        self._calls = 0
        self._seconds = 0.0

    def get(self, block: int, key: Any) -> Any:
        """The row with a key in a block, or None."""
        return self.get_many([(block, key)])[0]

    def get_many(self, requests: list[tuple[int, Any]]) -> list[Any]:
        """The rows for some keys, each in a block."""
        started = time.perf_counter()
        found = [self._row(block, key) for block, key in requests]
        self._calls += 1
        self._seconds += time.perf_counter() - started
        return found

    def _row(self, block: int, key: Any) -> Any:
        keys, table = self._blocks[block]
        at = bisect.bisect_left(keys, key)
        if at < len(keys) and keys[at] == key:
            return next(iter(blocks.rows_of(table.slice(at, 1))))
        return None

    def used(self) -> tuple[int, float]:
        """Return the number of requests, and the seconds that the lookups took."""
        return self._calls, self._seconds
