"""Channels within one process, and readers and writers of channels of one's own."""

from __future__ import annotations

import asyncio
import pickle
import queue
from typing import Any

import pytest
import ray
from ray.exceptions import RayChannelTimeoutError, RayTaskError
from ray.experimental.channel import (
    AwaitableBackgroundReader,
    AwaitableBackgroundWriter,
    CachedChannel,
    ChannelInterface,
    CompiledDAGArgs,
    IntraProcessChannel,
    SynchronousReader,
    SynchronousWriter,
)


class Line(ChannelInterface):
    """A channel of one's own."""

    def __init__(self, *values: Any) -> None:
        super().__init__(None, [], None)
        self.values: queue.Queue[Any] = queue.Queue()
        self.closed = False
        for value in values:
            self.values.put(value)

    def ensure_registered_as_writer(self) -> None:
        """Anybody may write."""

    def ensure_registered_as_reader(self) -> None:
        """Anybody may read."""

    def write(self, value: Any, timeout: float | None = None) -> None:
        self.values.put(value)

    def read(self, timeout: float | None = None) -> Any:
        try:
            return self.values.get(timeout=timeout) if timeout else self.values.get_nowait()
        except queue.Empty:
            raise RayChannelTimeoutError("there is no value") from None

    def close(self) -> None:
        self.closed = True


def test_a_value_in_its_process_is_read_as_often_as_said() -> None:
    channel = IntraProcessChannel(num_readers=2)
    other = pickle.loads(pickle.dumps(channel))
    value = object()
    channel.write(value)
    with pytest.raises(AssertionError, match="already exists in the buffer"):
        channel.write(1)
    assert other.read() is value
    assert channel.read() is value
    with pytest.raises(AssertionError, match="does not exist in the buffer"):
        channel.read()
    channel.write(2)
    channel.close()
    channel.write(3)
    assert channel.read() == 3
    channel.close()


def test_a_cached_channel_reads_its_inner_channel_once_for_all_readers() -> None:
    line = Line(1, 2)
    channel = CachedChannel(2, line)
    assert [channel.read(1) for _ in range(4)] == [1, 1, 2, 2]
    with pytest.raises(RayChannelTimeoutError):
        channel.read(0)
    channel.write(3)
    assert channel.read(1) == 3
    channel.close()
    assert line.closed


def test_a_cached_channel_without_an_inner_one_holds_what_was_written() -> None:
    channel = CachedChannel(2)
    with pytest.raises(AssertionError, match="Cannot read"):
        channel.read()
    channel.write("a")
    assert [channel.read(), channel.read()] == ["a", "a"]
    with pytest.raises(AssertionError, match="num_reads must be greater than 0"):
        CachedChannel(0)


def test_a_reader_returns_one_value_of_each_channel() -> None:
    reader = SynchronousReader([Line(1, 3), Line(2)])
    reader.start()
    assert reader.read(timeout=5) == [1, 2]
    with pytest.raises(RayChannelTimeoutError):
        reader.read(timeout=0.2)
    assert reader.get_num_reads() == 1


def test_an_error_stands_for_all_values_and_the_next_values_belong_together() -> None:
    error = RayTaskError("f", "trace", ValueError("no"))
    first, second = Line(error, 1), Line()
    reader = SynchronousReader([first, second])
    assert reader.read(timeout=5) == [error, error]
    second.write("of the error")
    second.write(2)
    assert reader.read(timeout=5) == [1, 2]
    reader.close()
    assert first.closed and second.closed


def test_a_writer_gives_each_channel_its_part() -> None:
    lines = [Line(), Line()]
    writer = SynchronousWriter(lines, [0, 1])
    writer.start()
    writer.write(("a", "b"))
    assert [line.read(1) for line in lines] == ["a", "b"]
    for wrong, text in ((1, "Expected a tuple of 2 outputs"), ((1, 2, 3), "Expected 2 outputs, but got 3")):
        with pytest.raises(ValueError, match=text):
            writer.write(wrong)
    assert writer.get_num_writes() == 1
    arguments = SynchronousWriter(lines, [0, "k"], is_input=True)
    arguments.write(CompiledDAGArgs((1,), {"k": 2}))
    assert [line.read(1) for line in lines] == [1, 2]


def test_readers_and_writers_of_an_event_loop() -> None:
    async def through() -> list[Any]:
        line = Line()
        futures: asyncio.Queue[Any] = asyncio.Queue()
        writer, reader = AwaitableBackgroundWriter([line], [None]), AwaitableBackgroundReader([line], futures)
        writer.start()
        reader.start()
        futures_of_values = [asyncio.get_running_loop().create_future() for _ in range(3)]
        for value, future in enumerate(futures_of_values):
            await writer.write(value)
            await futures.put(future)
        found = [await asyncio.wait_for(future, 20) for future in futures_of_values]
        line.write(None)  # a read that has begun is to end
        writer.close()
        reader.close()
        with pytest.raises(RuntimeError, match="DAG execution cancelled"):
            await writer.write(1)
        return found

    assert asyncio.run(through()) == [[0], [1], [2]]


@pytest.mark.chosen_difference("only a graph has channels in shared memory", id="D-channels")
@pytest.mark.parametrize(
    "name", ["Channel", "BufferedSharedMemoryChannel", "CompositeChannel", "TorchTensorAcceleratorChannel"]
)
def test_channels_of_a_graph_are_not_created_alone(name: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"^{name} cannot .*experimental_compile.*Queue"):
        getattr(ray.experimental.channel, name)(None, [])
