"""Calls as Llama 3.1 and later write them: `{"name": ..., "parameters": {...}}`, several with `;` between them.

The object is the whole answer, or follows `<|python_tag|>`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from skate.llm.tool_calls.buffered_parser import BufferedParser
from skate.llm.tool_calls.call_object import CallObject, Part
from skate.llm.tool_calls.content import overlap
from skate.llm.tool_calls.event import Event

_TAG = "<|python_tag|>"
_BETWEEN = " \t\r\n;,"


class Llama3JsonParser(BufferedParser):
    """Reads calls at the start of an answer and after the tag."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self._names: Collection[str] = tuple(tools)
        self._call: CallObject | None = None
        self._expects = True  # a call may begin here
        self._tagged = False  # the tag was just read

    @property
    def open(self) -> bool:
        """True if a call has begun and is not complete."""
        return self._call is not None and self._call.open

    def _step(self, events: list[Event]) -> bool:
        if self._call is not None:
            return self._in_call(self._call, events)
        if self._expects:
            rest = self._buffer.lstrip(_BETWEEN)
            if not rest or (rest != _TAG and _TAG.startswith(rest)):
                return False
            if rest.startswith(_TAG):
                self._buffer, self._tagged = rest[len(_TAG) :], True
            elif rest.startswith("{"):
                self._buffer, self._call = rest, CallObject(None if self._tagged else self._names)
            else:
                # A tag without a call precedes code; it is dropped, and the code is text for the user.
                self._expects = self._tagged = False
            return True
        at = self._buffer.find(_TAG)
        size = at if at >= 0 else len(self._buffer) - overlap(self._buffer, (_TAG,))
        if size:
            events += self._content.add(self._buffer[:size])
        self._buffer = self._buffer[size:]
        self._expects = at >= 0
        return self._expects

    def _in_call(self, call: CallObject, events: list[Event]) -> bool:
        before = len(events)
        self._buffer = self._buffer[call.take(self._buffer, 0, events) :]
        if len(events) > before:
            self._content.call()
        if call.ended:
            self._call = None
            self._tagged = False
            self._expects = call.part is Part.DONE
            if not call.begun:
                events += self._content.add(call.raw)
        return bool(self._buffer)

    def _unread(self) -> str:
        return self._buffer if self._call is None else self._call.raw
