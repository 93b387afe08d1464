"""The common part of parsers that hold text back until they know what it is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from skate.llm.tool_calls.content import ContentText
from skate.llm.tool_calls.event import Event


class BufferedParser(ABC):
    """Reads its buffer in steps; subclasses define a step."""

    def __init__(self) -> None:
        self._content = ContentText()
        self._buffer = ""

    @abstractmethod
    def _step(self, events: list[Event]) -> bool:
        """Read a part of the buffer, which is not empty; return False if more text is needed."""

    @abstractmethod
    def _unread(self) -> str:
        """Return the text at the end of an answer that turned out to be no call."""

    def feed(self, text: str) -> list[Event]:
        """Return what a further part of the text contains."""
        self._buffer += text
        events: list[Event] = []
        while self._buffer and self._step(events):
            pass
        return events

    def finish(self) -> list[Event]:
        """Return what was held back at the end of the text."""
        return [*self._content.add(self._unread()), *self._content.end()]
