"""Calls as Hermes and Qwen 2.5 and 3 write them: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.llm.tool_calls.buffered_parser import BufferedParser
from skate.llm.tool_calls.call_object import CallObject, Part
from skate.llm.tool_calls.content import overlap
from skate.llm.tool_calls.event import Event

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


class HermesParser(BufferedParser):
    """Reads calls between tags. A call whose end tag is missing counts, too."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self._call: CallObject | None = None
        self._after = False  # between the end of a call and its end tag

    @property
    def open(self) -> bool:
        """True if a call has begun and is not complete."""
        return self._call is not None and self._call.open

    def _step(self, events: list[Event]) -> bool:
        if self._call is not None:
            return self._in_call(self._call, events)
        if self._after:
            return self._after_call()
        at = self._buffer.find(_OPEN)
        if at < 0:
            self._give(len(self._buffer) - overlap(self._buffer, (_OPEN,)), events)
            return False
        self._give(at, events)
        self._buffer = self._buffer[len(_OPEN) :]
        self._call = CallObject()
        return True

    def _after_call(self) -> bool:
        """Skip the end tag, which some models forget, and what small models write too much of."""
        rest = self._buffer.lstrip(" \t\r\n}]")
        if not rest or (rest != _CLOSE and _CLOSE.startswith(rest)):
            return False
        self._buffer = rest.removeprefix(_CLOSE)
        self._after = False
        return True

    def _give(self, size: int, events: list[Event]) -> None:
        if size:
            events += self._content.add(self._buffer[:size])
            self._buffer = self._buffer[size:]

    def _in_call(self, call: CallObject, events: list[Event]) -> bool:
        before = len(events)
        self._buffer = self._buffer[call.take(self._buffer, 0, events) :]
        if len(events) > before:
            self._content.call()
        if call.ended:
            self._call = None
            self._after = call.part is Part.DONE
            if not call.begun:  # no call: the text after the tag may contain another tag
                events += self._content.add(_OPEN)
                self._buffer = call.raw + self._buffer
        return bool(self._buffer)

    def _unread(self) -> str:
        if self._call is not None:
            return "" if self._call.begun else _OPEN + self._call.raw
        return "" if self._after else self._buffer
