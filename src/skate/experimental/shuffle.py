"""A shuffle written with tasks alone: partitions of the input are split, and each output is made of one part of every split."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import skate

PartitionID = int
InputStream = Iterable[Any]
Partitioner = Callable[[InputStream, int], Iterator[tuple[PartitionID, Any]]]


class ObjectStoreWriter:
    """Puts each item of a part into the object store separately; the reader fetches them one by one."""

    def __init__(self) -> None:
        self.results: list[Any] = []

    def add(self, item: Any) -> None:
        """Add an item."""
        self.results.append(skate.put(item))

    def finish(self) -> list[Any]:
        """Return the refs of the part."""
        return self.results


class ObjectStoreWriterNonStreaming(ObjectStoreWriter):
    """Keeps the items of a part together, as one value."""

    def add(self, item: Any) -> None:
        """Add an item."""
        self.results.append(item)


def round_robin_partitioner(
    input_stream: InputStream, num_partitions: int
) -> Generator[tuple[PartitionID, Any], None, None]:
    """Distribute items to partitions in turn."""
    for index, item in enumerate(input_stream):
        yield index % num_partitions, item


def simple_shuffle(
    *,
    input_reader: Callable[[PartitionID], InputStream],
    input_num_partitions: int,
    output_num_partitions: int,
    output_writer: Callable[[PartitionID, list[Any]], Any],
    partitioner: Partitioner = round_robin_partitioner,
    object_store_writer: type[ObjectStoreWriter] = ObjectStoreWriter,
    tracker: Any = None,
    streaming: bool = True,
) -> list[Any]:
    """Shuffle with one round of tasks that read and split, and one that writes.

    Args:
        input_reader: returns the items of an input partition.
        input_num_partitions: the number of input partitions.
        output_num_partitions: the number of output partitions.
        output_writer: writes an output partition, a list of items.
        partitioner: assigns each item to an output partition.
        object_store_writer: stores the items of a part.
        tracker: an actor that is notified of progress (`register_objectref`, `inc`, `inc2`), if any.
        streaming: True if the reader of parts receives refs to their items.

    Returns the result of `output_writer` for each output partition.
    """

    def split(index: PartitionID) -> list[Any]:
        writers = [object_store_writer() for _ in range(output_num_partitions)]
        for target, item in partitioner(input_reader(index), output_num_partitions):
            writers[target].add(item)
        return [writer.finish() for writer in writers]

    def write(index: PartitionID, parts: list[Any]) -> Any:
        items: list[Any] = []
        for part in skate.get(parts):
            by_ref = streaming and part and isinstance(part[0], skate.ObjectRef)
            items += skate.get(part) if by_ref else part
        return output_writer(index, items)

    splitter = skate.remote(num_returns=output_num_partitions)(split)
    writer = skate.remote(write)
    rows = [splitter.remote(index) for index in range(input_num_partitions)]
    parts = [row if isinstance(row, list) else [row] for row in rows]
    if output_num_partitions == 1:
        parts = [[skate.remote(lambda found: found[0]).remote(row[0])] for row in parts]
    return list(
        skate.get(
            [writer.remote(index, [row[index] for row in parts]) for index in range(output_num_partitions)]
        )
    )
