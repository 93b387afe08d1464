"""A stream that writes to two others."""

from __future__ import annotations

import logging
from typing import Any

_log = logging.getLogger("skate.tune")


class Tee:
    """Writes to two streams; a closed one is skipped with a warning.

    Args:
        stream1, stream2: the streams. Other attributes come from the first.
    """

    def __init__(self, stream1: Any, stream2: Any) -> None:
        self.stream1 = stream1
        self.stream2 = stream2
        self._warns = False

    def _both(self, name: str, *args: Any, **kwargs: Any) -> None:
        for stream in (self.stream1, self.stream2):
            try:
                getattr(stream, name)(*args, **kwargs)
            except ValueError:
                if not self._warns:  # the warning itself may come back to this stream
                    self._warns = True
                    try:
                        _log.warning("ValueError when calling %r on stream (%s)", name, stream)
                    finally:
                        self._warns = False

    def write(self, *args: Any, **kwargs: Any) -> None:
        """Write to both streams."""
        self._both("write", *args, **kwargs)

    def flush(self, *args: Any, **kwargs: Any) -> None:
        """Flush both streams."""
        self._both("flush", *args, **kwargs)

    def seek(self, *args: Any, **kwargs: Any) -> None:
        """Seek in both streams."""
        self._both("seek", *args, **kwargs)

    def _first(self, name: str) -> Any:
        return getattr(self.stream1 if hasattr(self.stream1, name) else self.stream2, name)

    @property
    def encoding(self) -> Any:
        """The encoding of the first stream, or of the second if that has none."""
        return self._first("encoding")

    @property
    def error(self) -> Any:
        """How the first stream handles encoding errors."""
        return self._first("error")

    @property
    def newlines(self) -> Any:
        """The newlines of the first stream."""
        return self._first("newlines")

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("a Tee supports writing only; it cannot be read or detached")

    detach = read = readline = tell = _refused

    def __getattr__(self, name: str) -> Any:
        if name == "stream1":  # during the creation of a copy
            raise AttributeError(name)
        return getattr(self.stream1, name)
