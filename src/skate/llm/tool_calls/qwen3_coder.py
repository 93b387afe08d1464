"""Calls as Qwen3-Coder writes them, with a tag for each parameter.

<tool_call><function=weather><parameter=city>Oslo</parameter></function></tool_call>
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skate.llm.tool_calls.buffered_parser import BufferedParser
from skate.llm.tool_calls.content import overlap
from skate.llm.tool_calls.event import Arguments, CallStart, Event

_CALL, _CALL_END = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"


class Qwen3CoderParser(BufferedParser):
    """Reads calls between tags; a parameter is given once it is complete, as the type that its schema says."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self._tools = tools
        self._tag = ""  # the tag of a call whose function has not begun
        self._name: str | None = None
        self._parameter: str | None = None
        self._count = 0
        self._after = False  # between the end of a function and the end tag of its call

    @property
    def open(self) -> bool:
        """True if a call has begun and is not complete."""
        return self._name is not None

    def _step(self, events: list[Event]) -> bool:
        if self._parameter is not None:
            return self._in_parameter(self._parameter, events)
        if self._name is not None:
            return self._in_function(events)
        if self._tag:
            return self._in_call(events)
        if self._after:
            rest = self._buffer.lstrip()
            self._after = rest != _CALL_END and _CALL_END.startswith(rest)
            if not self._after:
                self._buffer = rest.removeprefix(_CALL_END)
            return not self._after
        found = [(at, mark) for mark in (_CALL, _FUNCTION) if (at := self._buffer.find(mark)) >= 0]
        size = min(found)[0] if found else len(self._buffer) - overlap(self._buffer, (_CALL, _FUNCTION))
        if size:
            events += self._content.add(self._buffer[:size])
        self._buffer = self._buffer[size:]
        if found:
            self._tag = _CALL if self._buffer.startswith(_CALL) else "\n"
            self._buffer = self._buffer.removeprefix(_CALL)
        return bool(found)

    def _in_call(self, events: list[Event]) -> bool:
        rest = self._buffer.lstrip()
        if rest.startswith(_FUNCTION):
            end = rest.find(">")
            if end < 0:
                return False
            self._name, self._count, self._tag = rest[len(_FUNCTION) : end].strip(), 0, ""
            self._content.call()
            events.append(CallStart(self._name))
            self._buffer = rest[end + 1 :]
            return True
        if not rest or _FUNCTION.startswith(rest):
            return False
        events += self._content.add(self._tag.strip())
        self._tag = ""
        return True

    def _in_function(self, events: list[Event]) -> bool:
        """Read up to the next parameter or the end of the function."""
        marks = (_PARAMETER, _FUNCTION_END, _CALL_END)
        found = [(at, mark) for mark in marks if (at := self._buffer.find(mark)) >= 0]
        if not found:
            return False
        at, mark = min(found)
        rest = self._buffer[at + len(mark) :]
        if mark == _PARAMETER:
            end = rest.find(">")
            if end < 0:
                return False
            self._parameter, self._buffer = rest[:end].strip(), rest[end + 1 :]
            return True
        events.append(Arguments("}" if self._count else "{}"))
        self._name = None
        self._buffer, self._after = rest, mark == _FUNCTION_END
        return True

    def _in_parameter(self, name: str, events: list[Event]) -> bool:
        end = self._buffer.find(_PARAMETER_END)
        if end < 0:
            return False
        text = self._buffer[:end].removeprefix("\n").removesuffix("\n")
        schema = ((self._tools.get(self._name or "") or {}).get("properties") or {}).get(name)
        value = json.dumps(_typed(text, schema), ensure_ascii=False)
        events.append(
            Arguments(
                ("{" if not self._count else ", ") + json.dumps(name, ensure_ascii=False) + ": " + value
            )
        )
        self._count += 1
        self._parameter, self._buffer = None, self._buffer[end + len(_PARAMETER_END) :]
        return True

    def _unread(self) -> str:
        return self._tag.strip() + self._buffer if self._name is None and not self._after else ""


def _typed(text: str, schema: object) -> Any:
    """Return the value of a parameter as its schema says; as text if that says nothing or the text does not fit."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "string" or (kind is None and not isinstance(schema, Mapping)):
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(text, text)
    if isinstance(kind, list) and "string" in kind and value is not None:
        return text
    return value
