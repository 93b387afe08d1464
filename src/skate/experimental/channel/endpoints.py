"""Readers and writers of several channels together."""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from skate.exceptions import RayChannelTimeoutError, RayTaskError
from skate.experimental.channel.interface import ChannelInterface, CompiledDAGArgs

_TURN_SECONDS = 0.1  # how long to wait for one channel before the others are checked
_LEFTOVER_SECONDS = 60


class ReaderInterface:
    """Base of readers of several channels."""

    def __init__(self, input_channels: list[ChannelInterface]) -> None:
        assert isinstance(input_channels, list), f"input_channels must be a list, got {input_channels!r}"
        for channel in input_channels:
            assert isinstance(channel, ChannelInterface), f"not a channel: {channel!r}"
        self._input_channels = input_channels
        self._closed = False
        self._num_reads = 0
        #: Channels whose value was not read, because another one had an error.
        self._leftover: list[ChannelInterface] = []

    def get_num_reads(self) -> int:
        """Return the number of reads so far."""
        return self._num_reads

    def start(self) -> None:
        """Prepare to read."""
        raise NotImplementedError

    def read(self, timeout: float | None = None) -> list[Any]:
        """Return one value of each channel. Raises RayChannelTimeoutError after `timeout` seconds; None and -1 wait forever."""
        assert timeout is None or timeout >= 0 or timeout == -1, "Timeout must be non-negative or -1."
        values = self._read_list(timeout)
        self._num_reads += 1
        return values

    def close(self) -> None:
        """Close the channels."""
        self._closed = True
        for channel in self._input_channels:
            channel.close()

    def _read_list(self, timeout: float | None) -> list[Any]:
        raise NotImplementedError

    def _read_turns(self, seconds: float) -> list[Any]:
        """Read all channels in turns; the first RayTaskError stands for all values at once."""
        found: dict[int, Any] = {}
        until = time.monotonic() + seconds
        while len(found) < len(self._input_channels):
            for at, channel in enumerate(self._input_channels):
                if at in found:
                    continue
                left = max(until - time.monotonic(), 0)
                try:
                    value = found[at] = channel.read(min(left, _TURN_SECONDS))
                except RayChannelTimeoutError:
                    if self._closed or sys.is_finalizing() or time.monotonic() >= until:
                        raise
                    continue
                if isinstance(value, RayTaskError):
                    self._leftover = [
                        each for other, each in enumerate(self._input_channels) if other not in found
                    ]
                    return [value] * len(self._input_channels)
        return [found[at] for at in range(len(self._input_channels))]

    def _read_leftover(self, timeout: float | None) -> None:
        """Take the values that the last read left, so that the next values belong together."""
        while self._leftover:
            self._leftover[0].read(timeout)
            del self._leftover[0]


class SynchronousReader(ReaderInterface):
    """Reads in the calling thread."""

    def start(self) -> None:
        """No-op."""

    def _read_list(self, timeout: float | None) -> list[Any]:
        self._read_leftover(timeout)
        return self._read_turns(float("inf") if timeout is None or timeout == -1 else timeout)

    def release_channel_buffers(self, timeout: float | None = None) -> None:
        """Drop the next value of each channel, which must have a method `release_buffer`."""
        for channel in self._input_channels:
            release = getattr(channel, "release_buffer", None)
            assert release is not None, (
                f"release_buffer() is only supported for shared memory channels, not {channel!r}"
            )
            release(timeout)


class AwaitableBackgroundReader(ReaderInterface):
    """Reads in a separate thread and sets the results of futures, in the order of a queue."""

    def __init__(self, input_channels: list[ChannelInterface], fut_queue: asyncio.Queue[Any]) -> None:
        super().__init__(input_channels)
        self._queue = fut_queue
        self._task: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="channel.AwaitableBackgroundReader")

    def start(self) -> None:
        """Begin to read; must be called in the event loop."""
        self._task = asyncio.ensure_future(self.run())

    def _read_next(self) -> list[Any]:
        self._read_leftover(_LEFTOVER_SECONDS)
        return self._read_turns(float("inf"))

    async def run(self) -> None:
        """Read until closed; a future gets the values, or the exception of the read, as its result."""
        loop = asyncio.get_running_loop()
        while not self._closed:
            values, future = await asyncio.gather(
                loop.run_in_executor(self._thread, self._read_next),
                self._queue.get(),
                return_exceptions=True,
            )
            future.set_result(values)

    def close(self) -> None:
        """Close the channels, and stop reading."""
        super().close()
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(cancel_futures=True)


class WriterInterface:
    """Base of writers of several channels.

    Args:
        output_channels: the channels.
        output_idxs: for each channel, the index or key of the part that it gets; None for the whole value.
        is_input: values are arguments of a graph, as `CompiledDAGArgs`.
    """

    def __init__(
        self,
        output_channels: list[ChannelInterface],
        output_idxs: list[int | str | None],
        is_input: bool = False,
    ) -> None:
        assert len(output_channels) == len(output_idxs), "there must be one index for each channel"
        self._output_channels = output_channels
        self._output_idxs = output_idxs
        self._closed = False
        self._num_writes = 0
        self._is_input = is_input

    def get_num_writes(self) -> int:
        """Return the number of writes so far."""
        return self._num_writes

    def start(self) -> None:
        """Prepare to write."""
        raise NotImplementedError

    def write(self, val: Any, timeout: float | None = None) -> Any:
        """Write a value, or its parts. Raises RayChannelTimeoutError after `timeout` seconds; None and -1 wait forever."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the channels."""
        self._closed = True
        for channel in self._output_channels:
            channel.close()

    def _parts(self, value: Any) -> list[Any]:
        """Return the part of a value for each channel. Raises ValueError if the number of parts is wrong."""
        count = len(self._output_channels)
        if self._is_input:
            return [_argument(value, index) for index in self._output_idxs]
        if count > 1:
            if isinstance(value, Exception):
                return [value] * count
            if not isinstance(value, tuple):
                raise ValueError(f"Expected a tuple of {count} outputs, but got {type(value)}")
            if len(value) != count:
                raise ValueError(f"Expected {count} outputs, but got {len(value)} outputs")
        return [value if index is None else value[index] for index in self._output_idxs]


class SynchronousWriter(WriterInterface):
    """Writes in the calling thread."""

    def start(self) -> None:
        """Check that this process may write."""
        for channel in self._output_channels:
            channel.ensure_registered_as_writer()

    def write(self, val: Any, timeout: float | None = None) -> None:
        """Write a value, or its parts, in the order of the channels."""
        for channel, part in zip(self._output_channels, self._parts(val), strict=True):
            channel.write(part, timeout)
        self._num_writes += 1


class AwaitableBackgroundWriter(WriterInterface):
    """Writes in a separate thread; `write` is a coroutine that returns once the value is queued."""

    def __init__(
        self,
        output_channels: list[ChannelInterface],
        output_idxs: list[int | str | None],
        is_input: bool = False,
    ) -> None:
        super().__init__(output_channels, output_idxs, is_input)
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._task: asyncio.Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="channel.AwaitableBackgroundWriter")

    def start(self) -> None:
        """Begin to write queued values; must be called in the event loop."""
        for channel in self._output_channels:
            channel.ensure_registered_as_writer()
        self._task = asyncio.ensure_future(self.run())

    def _write_next(self, value: Any) -> None:
        for channel, part in zip(self._output_channels, self._parts(value), strict=True):
            while not self._closed and not sys.is_finalizing():
                try:
                    channel.write(part, timeout=1)
                    break
                except RayChannelTimeoutError:
                    continue

    async def run(self) -> None:
        """Write queued values until closed."""
        loop = asyncio.get_running_loop()
        while True:
            value = await self._queue.get()
            await loop.run_in_executor(self._thread, self._write_next, value)

    async def write(self, val: Any) -> None:  # type: ignore[override]
        """Queue a value. Raises RuntimeError once closed."""
        if self._closed:
            raise RuntimeError("DAG execution cancelled")
        await self._queue.put(val)
        self._num_writes += 1

    def close(self) -> None:
        """Stop writing, and close the channels."""
        if self._task is not None:
            self._task.cancel()
        super().close()
        self._thread.shutdown(cancel_futures=True)


def _argument(value: Any, index: int | str | None) -> Any:
    """Return one argument of a graph. A value other than CompiledDAGArgs is the only argument."""
    if not isinstance(value, CompiledDAGArgs):
        return value
    return value.args[index] if isinstance(index, int) else value.kwargs[index]  # type: ignore[index]


__all__ = [
    "AwaitableBackgroundReader",
    "AwaitableBackgroundWriter",
    "ReaderInterface",
    "SynchronousReader",
    "SynchronousWriter",
    "WriterInterface",
]
