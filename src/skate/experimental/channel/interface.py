"""The interface of a channel, and channels within one process."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

#: Values in the channels of this process: (value, reads left), by channel id.
_values: dict[str, tuple[Any, int]] = {}


class CompiledDAGArgs(NamedTuple):
    """The arguments of one execution of a compiled graph."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class ChannelInterface:
    """Base of transports from one writer to its readers; custom channels implement its methods."""

    def __init__(self, writer: Any, readers: list[Any], typ: Any) -> None:
        """Create a channel.

        Args:
            writer: the actor that writes; None for the driver.
            readers: the actors that read; None for the driver.
            typ: the type of the values.
        """

    def ensure_registered_as_writer(self) -> None:
        """Check that this process may write; may be called repeatedly."""
        raise NotImplementedError

    def ensure_registered_as_reader(self) -> None:
        """Check that this process may read; may be called repeatedly."""
        raise NotImplementedError

    def write(self, value: Any, timeout: float | None = None) -> None:
        """Write a value once all readers have the previous one. Raises RayChannelTimeoutError after `timeout` seconds; 0 does not
        wait, and -1 waits forever."""
        raise NotImplementedError

    def read(self, timeout: float | None = None) -> Any:
        """Wait for the next value and return it; an exception is returned as well. `timeout` is as for `write`."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the channel without waiting; may be called repeatedly."""
        raise NotImplementedError


class IntraProcessChannel(ChannelInterface):
    """A channel between tasks of one process: readers get the written object itself.

    Args: num_readers: the number of reads after which the next value may be written.
    """

    def __init__(self, num_readers: int, _channel_id: str | None = None) -> None:
        self._num_readers = num_readers
        self._channel_id = _channel_id or str(uuid.uuid4())

    def __reduce__(self) -> Any:
        return IntraProcessChannel, (self._num_readers, self._channel_id)

    def ensure_registered_as_writer(self) -> None:
        """No-op: every task of the process may write."""

    def ensure_registered_as_reader(self) -> None:
        """No-op: every task of the process may read."""

    def write(self, value: Any, timeout: float | None = None) -> None:
        """Write a value. Raises AssertionError if not all readers have read the previous one."""
        _put(self._channel_id, value, self._num_readers)

    def read(self, timeout: float | None = None, deserialize: bool = True) -> Any:
        """Return the value. Raises AssertionError if there is none."""
        assert deserialize, "a value within a process is never serialized"
        return _take(self._channel_id)

    def close(self) -> None:
        """Drop the value."""
        _values.pop(self._channel_id, None)

    def __str__(self) -> str:
        return f"IntraProcessChannel(channel_id={self._channel_id})"


class CachedChannel(ChannelInterface):
    """A channel that reads each value once from an inner channel, and returns it to several readers of this
    process.

    Args: num_reads: the number of reads of each value. inner_channel: the source of values; without one, they
    stay in this process.
    """

    def __init__(
        self, num_reads: int, inner_channel: ChannelInterface | None = None, _channel_id: str | None = None
    ) -> None:
        assert num_reads > 0, f"num_reads must be greater than 0, not {num_reads}."
        self._num_reads = num_reads
        self._inner_channel = inner_channel
        self._channel_id = _channel_id or str(uuid.uuid4())

    def __reduce__(self) -> Any:
        return CachedChannel, (self._num_reads, self._inner_channel, self._channel_id)

    def ensure_registered_as_writer(self) -> None:
        """Check that this process may write to the inner channel."""
        if self._inner_channel is not None:
            self._inner_channel.ensure_registered_as_writer()

    def ensure_registered_as_reader(self) -> None:
        """Check that this process may read from the inner channel."""
        if self._inner_channel is not None:
            self._inner_channel.ensure_registered_as_reader()

    def write(self, value: Any, timeout: float | None = None) -> None:
        """Write a value to the inner channel."""
        self.ensure_registered_as_writer()
        if self._inner_channel is not None:
            self._inner_channel.write(value, timeout)
        else:
            _put(self._channel_id, value, self._num_reads)

    def read(self, timeout: float | None = None) -> Any:
        """Return the value; the first of `num_reads` calls reads it from the inner channel."""
        self.ensure_registered_as_reader()
        if self._channel_id not in _values:
            assert self._inner_channel is not None, (
                "Cannot read from the serialization context while inner channel is None: nothing was written"
            )
            _put(self._channel_id, self._inner_channel.read(timeout), self._num_reads)
        return _take(self._channel_id)

    def close(self) -> None:
        """Close the inner channel, and drop the value."""
        if self._inner_channel is not None:
            self._inner_channel.close()
        _values.pop(self._channel_id, None)

    def __str__(self) -> str:
        inner = self._inner_channel
        return f"CachedChannel(channel_id={self._channel_id}, num_reads={self._num_reads}, inner_channel={inner})"


def _put(channel_id: str, value: Any, reads: int) -> None:
    assert reads > 0, f"num_readers must be greater than 0, not {reads}."
    assert channel_id not in _values, (
        f"Channel {channel_id} already exists in the buffer: its last value was not read by all readers"
    )
    _values[channel_id] = (value, reads)


def _take(channel_id: str) -> Any:
    assert channel_id in _values, f"Channel {channel_id} does not exist in the buffer: no value was written"
    value, reads = _values.pop(channel_id)
    if reads > 1:
        _values[channel_id] = (value, reads - 1)
    return value


__all__ = ["CachedChannel", "ChannelInterface", "CompiledDAGArgs", "IntraProcessChannel"]
