"""Metrics of loops over batches under Ray's names: where the time of a loop goes. They are only made when they are read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, TypeVar

import pyarrow as pa

from skate.data.exceptions import EXPLAINED, without_frames
from skate.data.execution.bundle import Bundle
from skate.util.metrics import Recent

Value = TypeVar("Value")
Family = tuple[str, str, str, tuple[float, ...], tuple[Any, ...]]

_SECONDS = {
    "initialize": "Seconds from the start of the loop until its run had begun.",
    "get_ref_bundles": "Seconds of waiting for blocks.",
    "get": "Seconds of reading blocks that were there.",
    "next_batch": "Seconds of cutting blocks into batches.",
    "format_batch": "Seconds of converting batches into their format.",
    "collate_batch": "Seconds of collating and finishing batches.",
    "finalize_batch": "Seconds of finishing batches apart from collating them; both are done at once.",
    "total_blocked": "Seconds in which the loop has waited for batches.",
    "user": "Seconds between batches, in the body of the loop.",
    "time_to_first_batch": "Seconds until the first batch.",
}
_NUMBERS = {
    "batches_total": "Batches that the loop has got.",
    "rows_total": "Rows of the batches that were made.",
    "blocks_local": "Blocks that were in this process.",
    "blocks_remote": "Blocks that were on another node.",
    "unknown_location": "Blocks of which the loop does not know where they were.",
    "prefetched_bytes": "Bytes of blocks that were read, and are in no batch yet.",
}


class LoopFigures:
    """The metrics of one loop.

    Args:
        dataset: the label of the run that the loop reads.
        split: the number of the reader, if the run has several.
    """

    def __init__(self, dataset: str, split: str = "") -> None:
        self._labels = (("dataset", dataset), ("split", split))
        self._split = split
        self._begun = time.perf_counter()
        self.seconds = dict.fromkeys(_SECONDS, 0.0)
        self.numbers = dict.fromkeys(_NUMBERS, 0)

    def reads(self, dataset: str) -> None:
        """Set the label of the run that the loop reads, once it is known."""
        self._labels = (("dataset", dataset), ("split", self._split))

    def opened(self) -> None:
        """Record that the run has begun."""
        self.seconds["initialize"] = time.perf_counter() - self._begun

    def tables(self, bundles: Iterator[Bundle]) -> Iterator[pa.Table]:
        """Yield the blocks as tables, and measure the time until they have come and are read."""
        for bundle in self.timed("get_ref_bundles", bundles):
            begun = time.perf_counter()
            self.numbers["blocks_local" if bundle.here else "unknown_location"] += 1
            table = bundle.table()
            self.seconds["get"] += time.perf_counter() - begun
            self.numbers["prefetched_bytes"] = bundle.bytes
            yield table
            del table  # it may be large

    def cut(self, groups: Iterator[list[pa.Table]]) -> Iterator[list[pa.Table]]:
        """Yield groups of batches that are cut from blocks, and measure the time beside that of getting the blocks."""
        seconds = self.seconds
        before = seconds["get_ref_bundles"] + seconds["get"]
        for group in self.timed("next_batch", groups):
            now = seconds["get_ref_bundles"] + seconds["get"]
            seconds["next_batch"] = max(0.0, seconds["next_batch"] - (now - before))
            before = now
            self.numbers["rows_total"] += sum(table.num_rows for table in group)
            yield group

    def timed(self, step: str, flow: Iterator[Value]) -> Iterator[Value]:
        """Yield the values of an iterator, and add the time of each to a step."""
        while True:
            begun = time.perf_counter()
            try:
                value = next(flow)
            except StopIteration:
                return
            finally:
                self.seconds[step] += time.perf_counter() - begun
            yield value
            del value  # it may be large

    def followed(self, batches: Iterator[Value]) -> Iterator[Value]:
        """Yield the batches of the loop, and measure how long it waits for them and works on them."""
        _loops.add(self)
        seconds = self.seconds
        try:
            for value in self.timed("total_blocked", batches):
                if not self.numbers["batches_total"]:
                    seconds["time_to_first_batch"] = time.perf_counter() - self._begun
                self.numbers["batches_total"] += 1
                begun = time.perf_counter()
                yield value
                del value  # it may be large
                seconds["user"] += time.perf_counter() - begun
        except EXPLAINED as error:
            raise without_frames(error) from error.__cause__
        finally:
            _loops.end(self)
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    def series(self) -> Iterator[tuple[str, str, Any]]:
        """Yield name, description and series of each metric."""
        for name, description in _SECONDS.items():
            yield f"data_iter_{name}_seconds", description, (self._labels, self.seconds[name], (), 0.0)
        for name, description in _NUMBERS.items():
            yield f"data_iter_{name}", description, (self._labels, float(self.numbers[name]), (), 0.0)


class SplitFigures:
    """The metrics of a run whose rows are dealt out to several loops."""

    def __init__(self, dataset: str, readers: int, equal: bool) -> None:
        self._labels = (("dataset", dataset), ("operator", f"split({readers}, equal={equal})"))
        self.rows = 0
        _loops.add(self)

    def series(self) -> Iterator[tuple[str, str, Any]]:
        """Yield name, description and series of each metric."""
        yield "data_output_rows", "Rows of results.", (self._labels, float(self.rows), (), 0.0)

    def end(self) -> None:
        """Record that the run has ended."""
        _loops.end(self)


def _families(loops: list[LoopFigures | SplitFigures]) -> list[Family]:
    """Return the metrics of some loops, one family for each name."""
    found: dict[str, Family] = {}
    for loop in loops:
        for name, description, one in loop.series():
            _, _, _, _, before = found.get(name, (name, "", "", (), ()))
            found[name] = name, "gauge", description, (), (*before, one)
    return list(found.values())


_loops = Recent(_families)
