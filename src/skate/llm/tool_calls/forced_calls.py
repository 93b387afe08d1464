"""Calls of an answer that a schema constrains, because the request says that tools, or which tool, must be called."""

from __future__ import annotations

from skate.llm.tool_calls.call_object import CallArray
from skate.llm.tool_calls.event import Arguments, CallStart, Content, Event


class RequiredCallsParser:
    """Reads the array of calls that `skate.llm.tool_calls.schema` describes."""

    def __init__(self) -> None:
        self._array = CallArray()

    @property
    def open(self) -> bool:
        """True if a call has begun and is not complete."""
        return self._array.open

    def feed(self, text: str) -> list[Event]:
        """Return what a further part of the text contains."""
        events: list[Event] = []
        end = self._array.take(text, 0, events)
        if self._array.failed:  # an engine without constraints
            events.append(Content(self._array.raw + text[end:]))
            self._array.raw = ""
        return events

    def finish(self) -> list[Event]:
        """Return nothing: a call without a complete name is not given."""
        return []


class NamedCallParser:
    """Takes the whole answer as the arguments of one tool."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun = False
        self.open = False

    def feed(self, text: str) -> list[Event]:
        """Return the text as arguments."""
        if not text:
            return []
        events: list[Event] = [] if self._begun else [CallStart(self._name)]
        self._begun = True
        return [*events, Arguments(text)]

    def finish(self) -> list[Event]:
        """Return nothing: everything was given."""
        return []
