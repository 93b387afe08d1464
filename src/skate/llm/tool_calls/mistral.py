"""Calls as Mistral's models write them after `[TOOL_CALLS]`: an array of objects, or a name and its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skate.llm.tool_calls.buffered_parser import BufferedParser
from skate.llm.tool_calls.call_object import CallArray
from skate.llm.tool_calls.content import overlap
from skate.llm.tool_calls.event import Arguments, CallStart, Event
from skate.llm.tool_calls.json_span import JsonSpan

_MARK = "[TOOL_CALLS]"
#: A name, and the marks that newer tokenizers put before the id of a call and before its arguments.
_HEAD = re.compile(r"\s*([\w.-]+)\s*(?:\[CALL_ID\]\s*[\w-]*\s*)?(?:\[ARGS\]\s*)?(?=\{)")
#: A text that more text may turn into a head.
_HEAD_MAX = 256
_UNFINISHED = re.compile(r"\s*[\w.-]*\s*(?:\[[A-Z_]*\]?\s*[\w-]*\s*){0,2}")


class MistralParser(BufferedParser):
    """Reads calls after the mark."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self._marked = False
        self._array: CallArray | None = None
        self._span: JsonSpan | None = None

    @property
    def open(self) -> bool:
        """True if a call has begun and is not complete."""
        return self._span is not None or (self._array is not None and self._array.open)

    def _step(self, events: list[Event]) -> bool:
        if self._array is not None:
            return self._in_array(self._array, events)
        if self._span is not None:
            return self._in_arguments(self._span, events)
        if self._marked:
            return self._begins(events)
        at = self._buffer.find(_MARK)
        size = at if at >= 0 else len(self._buffer) - overlap(self._buffer, (_MARK,))
        if size:
            events += self._content.add(self._buffer[:size])
        self._buffer = self._buffer[size + (len(_MARK) if at >= 0 else 0) :]
        self._marked = at >= 0
        return self._marked

    def _begins(self, events: list[Event]) -> bool:
        """Read the start of what follows the mark."""
        rest = self._buffer.lstrip()
        if not rest:
            return False
        if rest[0] in "[{":
            self._array, self._marked = CallArray(bare=rest[0] == "{"), False
            self._buffer = rest
            return True
        head = _HEAD.match(self._buffer)
        if head is not None:
            self._content.call()
            events.append(CallStart(head[1]))
            self._buffer = self._buffer[head.end() :]
            self._span, self._marked = JsonSpan(), False
            return True
        if len(self._buffer) < _HEAD_MAX and _UNFINISHED.fullmatch(self._buffer):
            return False
        self._marked = False
        events += self._content.add(_MARK)
        return True

    def _in_arguments(self, span: JsonSpan, events: list[Event]) -> bool:
        end = span.take(self._buffer, 0)
        events.append(Arguments(self._buffer[:end]))
        self._buffer = self._buffer[end:]
        if span.done:
            self._span = None
        return bool(self._buffer)

    def _in_array(self, array: CallArray, events: list[Event]) -> bool:
        before = len(events)
        self._buffer = self._buffer[array.take(self._buffer, 0, events) :]
        if len(events) > before:
            self._content.call()
        if array.done or array.failed:
            self._array = None
            if array.failed and array.raw:
                events += self._content.add(array.raw)
        return bool(self._buffer)

    def _unread(self) -> str:
        if self._array is not None:
            return self._array.pending
        return (_MARK if self._marked else "") + self._buffer if self._span is None else ""
